package worker

// The real gateway, workers that are killed, stock clients, and a way to the gateway that can be cut. SOCKEYE_BIN names the binary.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Longer than anything takes on a busy machine.
const patience = 60 * time.Second

const config = `profile = "socket.io"
[server]
shards = 2
pin = false
drain_window = "100ms"
[workers]
listen = "127.0.0.1:0"
%s
[log]
format = "json"
[limits]
outbox_bytes_max = "64MiB"
[backends.kitchen]
rehome_after = "2s"
silent_after = "%s"
api_keys = [%q]
[namespaces."/"]
backend = "kitchen"
[namespaces."/game"]
backend = "kitchen"
%s
`

// stage has one gateway, and all that a test starts.
type stage struct {
	t       *testing.T
	folder  string
	key     string
	gateway *process
	url     string
	workers string
	guests  *guests
}

type setting struct {
	tls, silent, more string
}

func binary(t *testing.T) string {
	path := os.Getenv("SOCKEYE_BIN")
	if path == "" {
		path = "../../target/ci/sockeye"
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("no gateway: build it, or set SOCKEYE_BIN: %v", err)
	}
	return path
}

func newStage(t *testing.T, with setting) *stage {
	t.Helper()
	if with.silent == "" {
		with.silent = "10s"
	}
	s := &stage{t: t, folder: t.TempDir()}
	made, err := exec.Command(binary(t), "api-key", "cook").Output()
	if err != nil {
		t.Fatalf("no key: %v", err)
	}
	s.key = regexp.MustCompile(`sockeye_\S+`).FindString(string(made))
	entry := regexp.MustCompile(`cook:\w+`).FindString(string(made))
	s.boot(fmt.Sprintf(config, with.tls, with.silent, entry, with.more))
	return s
}

func (s *stage) boot(text string) {
	s.t.Helper()
	file := filepath.Join(s.folder, "sockeye.toml")
	s.must(os.WriteFile(file, []byte(text), 0o600))
	s.gateway = start(s.t, exec.Command(binary(s.t), "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	var line struct{ Addresses, Workers string }
	s.must(json.Unmarshal([]byte(s.gateway.line(`"listening"`)), &line))
	s.url = "http://" + strings.Split(line.Addresses, ",")[0]
	s.workers = line.Workers
}

// beside is another gateway of the same key, with its own guests.
func (s *stage) beside(with setting) *stage {
	s.t.Helper()
	other := &stage{t: s.t, folder: s.t.TempDir(), key: s.key, guests: s.guests}
	text, err := os.ReadFile(filepath.Join(s.folder, "sockeye.toml"))
	s.must(err)
	other.boot(string(text) + with.more)
	return other
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// process is one whose output can be waited for; it is killed at the end of the test.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan struct{}
	mu    sync.Mutex
	said  bytes.Buffer
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, lines: make(chan string, 10_000), ended: make(chan struct{})}
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.mu.Lock()
			p.said.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			select {
			case p.lines <- lines.Text():
			default:
			}
		}
	}()
	go func() {
		_ = cmd.Wait()
		writer.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), p.output())
		}
	})
	return p
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *process) line(with string) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line := <-p.lines:
			if strings.Contains(line, with) {
				return line
			}
		case <-late:
			p.t.Fatalf("no line with %s in:\n%s", with, p.output())
		}
	}
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("it does not end: %s", p.output())
	}
	return p.cmd.ProcessState.ExitCode()
}

// worker starts the kitchen in a process of its own.
func (s *stage) worker(gateways ...string) *process {
	s.t.Helper()
	worker := s.aspirant(gateways...)
	worker.line("ready")
	return worker
}

// aspirant is one that may not be welcomed.
func (s *stage) aspirant(gateways ...string) *process {
	s.t.Helper()
	if len(gateways) == 0 {
		gateways = []string{s.workers}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KITCHEN="+strings.Join(gateways, ","), "KITCHEN_KEY="+s.key, "KITCHEN_FILES="+s.folder)
	return start(s.t, cmd)
}

// own is a worker in this process, and the way to end it.
func (s *stage) own(options Options, register func(*Worker)) (*Worker, func() error) {
	s.t.Helper()
	options.Key, options.Backend = s.key, "kitchen"
	worker, err := New(options, s.workers)
	s.must(err)
	register(worker)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop := func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(patience):
			return fmt.Errorf("the worker does not end")
		}
	}
	s.t.Cleanup(func() {
		// Whatever the gateway does by now.
		cancel()
	})
	select {
	case <-worker.Ready():
	case err := <-ended:
		s.t.Fatalf("the worker ended: %v", err)
	case <-time.After(patience):
		s.t.Fatal("the worker is not welcomed")
	}
	return worker, stop
}

// guests is the process of stock clients.
type guests struct {
	t     *testing.T
	stdin io.WriteCloser
	write sync.Mutex
	mu    sync.Mutex
	next  int
	waits map[int]chan word
	heard map[int]chan word
}

type word struct {
	Order   int
	Guest   int
	Answer  []any
	Refused *struct {
		Message string
		Data    any
	}
	Event string
	Args  []any
	Lost  string
}

// guest is one stock client.
type guest struct {
	crowd *guests
	name  int
	id    string
	heard chan word
}

func (s *stage) crowd() *guests {
	s.t.Helper()
	if s.guests != nil {
		return s.guests
	}
	cmd := exec.Command("node", "testdata/guests.mjs")
	stdin, err := cmd.StdinPipe()
	s.must(err)
	stdout, err := cmd.StdoutPipe()
	s.must(err)
	cmd.Stderr = os.Stderr
	s.must(cmd.Start())
	s.guests = &guests{t: s.t, stdin: stdin, waits: map[int]chan word{}, heard: map[int]chan word{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.guests.read(stdout)
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return s.guests
}

func (g *guests) read(stdout io.Reader) {
	decoder := json.NewDecoder(stdout)
	for {
		var got word
		if decoder.Decode(&got) != nil {
			return
		}
		g.mu.Lock()
		to := g.waits[got.Order]
		delete(g.waits, got.Order)
		if got.Order == 0 {
			to = g.heard[got.Guest]
		}
		g.mu.Unlock()
		if to != nil {
			to <- got
		}
	}
}

// order gives what answers it.
func (g *guests) order(order map[string]any) chan word {
	answer := make(chan word, 1)
	g.mu.Lock()
	g.next++
	order["order"] = g.next
	g.waits[g.next] = answer
	g.mu.Unlock()
	line, err := json.Marshal(order)
	if err == nil {
		g.write.Lock()
		_, err = g.stdin.Write(append(line, '\n'))
		g.write.Unlock()
	}
	if err != nil {
		g.t.Errorf("cannot order %v: %v", order, err)
	}
	return answer
}

func within(t *testing.T, from chan word) word {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatal("no word from the clients")
		return word{}
	}
}

// visit connects a client, or gives why it was refused.
func (s *stage) visit(order map[string]any) (*guest, *word) {
	s.t.Helper()
	crowd := s.crowd()
	crowd.mu.Lock()
	crowd.next++
	one := &guest{crowd: crowd, name: crowd.next, heard: make(chan word, 10_000)}
	crowd.heard[one.name] = one.heard
	crowd.mu.Unlock()
	if order["url"] == nil {
		order["url"] = s.url
	}
	order["do"], order["guest"] = "connect", one.name
	got := within(s.t, crowd.order(order))
	if got.Refused != nil {
		return nil, &got
	}
	one.id = got.Answer[0].(string)
	return one, nil
}

// guest is a client that is in the kitchen.
func (s *stage) guest() *guest {
	s.t.Helper()
	one, refused := s.visit(map[string]any{})
	if refused != nil {
		s.t.Fatalf("refused: %+v", refused.Refused)
	}
	one.hears("hello", one.id)
	return one
}

func (g *guest) emit(event string, args ...any) {
	g.crowd.t.Helper()
	within(g.crowd.t, g.crowd.order(g.about("emit", event, args)))
}

func (g *guest) about(do, event string, args []any) map[string]any {
	if args == nil {
		args = []any{}
	}
	return map[string]any{"do": do, "guest": g.name, "event": event, "args": args}
}

// ask gives the answer later.
func (g *guest) ask(event string, args ...any) chan word {
	return g.crowd.order(g.about("call", event, args))
}

// call gives the answer as JSON.
func (g *guest) call(event string, args ...any) string {
	g.crowd.t.Helper()
	return text(within(g.crowd.t, g.ask(event, args...)).Answer)
}

func text(value any) string {
	text, _ := json.Marshal(value)
	return string(text)
}

func (g *guest) next() word {
	g.crowd.t.Helper()
	return within(g.crowd.t, g.heard)
}

func (g *guest) hears(event string, args ...any) {
	g.crowd.t.Helper()
	got := g.next()
	if got.Event != event || text(got.Args) != text(args) {
		g.crowd.t.Fatalf("heard %s %s, not %s %s (lost: %q)", got.Event, text(got.Args), event, text(args), got.Lost)
	}
}

// wire is the address of the workers' listener behind a way that cut cuts.
func (s *stage) wire() (string, func()) {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.t.Cleanup(func() { listener.Close() })
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", s.workers)
			if err != nil {
				near.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, near, far)
			mu.Unlock()
			go pump(near, far)
			go pump(far, near)
		}
	}()
	cut := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			// A reset: what is under way is lost.
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
		conns = nil
	}
	return listener.Addr().String(), cut
}

func pump(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

// ledger is a logger that can be read.
type ledger struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (l *ledger) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(line)
}

func (l *ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

func (l *ledger) logger() *log.Logger { return log.New(l, "", 0) }

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); {
		if time.Now().After(until) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
