package worker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "sockeye.example/worker/internal/workerpb"
)

const trace = "4bf92f3577b34da6a3ce929d0e0e4736"

func is(t *testing.T, got, wanted string) {
	t.Helper()
	if got != wanted {
		t.Fatalf("got %s, not %s", got, wanted)
	}
}

func coded(bytes ...byte) map[string]any {
	return map[string]any{"bytes": base64.StdEncoding.EncodeToString(bytes)}
}

func TestDecisionsEventsRoomsAcksAndQuestions(t *testing.T) {
	s := newStage(t, setting{})
	s.worker()
	_, refused := s.visit(map[string]any{"auth": map[string]any{"bad": true}})
	is(t, text(refused.Refused), `{"Message":"not you","Data":{"code":7}}`)
	ada, grace, linus := s.guest(), s.guest(), s.guest()
	deep := map[string]any{"deep": []any{coded(3)}, "<": "é & "}
	is(t, ada.call("echo", coded(1, 2), deep, "text", nil), text([]any{coded(1, 2), deep, "text", nil}))
	is(t, ada.call("echo"), "[]")
	ada.emit("news", "soup")
	grace.hears("news", "soup")
	linus.hears("news", "soup")
	answer := within(t, ada.ask("survey")).Answer[0].([]any)
	got := []string{fmt.Sprint(answer[0]), fmt.Sprint(answer[1]), fmt.Sprint(answer[2])}
	wanted := []string{ada.id, grace.id, linus.id}
	sort.Strings(got)
	sort.Strings(wanted)
	is(t, text(got), text(wanted))
	is(t, ada.call("silence"), "[true]")
	who := ada.call("who")
	for _, one := range wanted {
		member := fmt.Sprintf(`{"data":{"last":0,"since":"start"},"id":%q,"rooms":2}`, one)
		if !strings.Contains(who, member) {
			t.Fatalf("no %s in %s", member, who)
		}
	}
	is(t, grace.call("move", "kitchen", "garden"), "[true]")
	grace.hears("moved", "garden")
	is(t, ada.call("fail"), `[{"error":"The handler failed"}]`)
	is(t, ada.call("panic"), `[{"error":"The handler failed"}]`)
	is(t, ada.call("unknown"), `[{"error":"No handler knows this event"}]`)
	if why := ada.call("wrong"); !strings.Contains(why, "event is empty") {
		t.Fatal(why)
	}
	linus.emit("leave me")
	ada.hears("left", "server namespace disconnect", []any{"kitchen"})
	game, _ := s.visit(map[string]any{
		"url": s.url + "/game", "query": map[string]any{"room": "7"}, "headers": map[string]any{"X-Table": "oak"},
	})
	// It polls, and goes up.
	eventually(t, "where, by which transport", func() bool { return game.call("where") == `["/game","7","oak","websocket"]` })
	is(t, ada.call("trace"), `[""]`)
}

func TestAWorkerAnswersAndAsksOtherServers(t *testing.T) {
	s := newStage(t, setting{})
	s.worker()
	guest := s.guest()
	s.worker()
	is(t, guest.call("consult", "double", coded(1, 2)), text([]any{[]any{coded(1, 2, 1, 2)}}))
	// A server that asks does not wait in vain.
	is(t, guest.call("consult", "nothing"), `[[{"error":"No handler knows this event"}]]`)
	is(t, guest.call("consult", "break"), `[[{"error":"The handler failed"}]]`)
	guest.emit("announce", "dinner")
	guest.hears("news", "dinner")
}

func TestTheTraceOfAnEventReachesItsHandler(t *testing.T) {
	s := newStage(t, setting{more: "[traces]\nendpoint = \"http://127.0.0.1:9/v1/traces\"\none_in = 0\n"})
	s.worker()
	guest, _ := s.visit(map[string]any{"query": map[string]any{"traceparent": "00-" + trace + "-00f067aa0ba902b7-01"}})
	seen := guest.call("trace")
	if !regexp.MustCompile(`^\["00-` + trace + `-[0-9a-f]{16}-01"\]$`).MatchString(seen) {
		t.Fatal(seen)
	}
}

// redis starts one, and gives the lines of configuration for it.
func redis(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	server := start(t, exec.Command("redis-server", "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()))
	server.line("Ready to accept connections")
	return fmt.Sprintf("[cluster]\nadapter = \"redis\"\nurls = [\"redis://127.0.0.1:%d\"]\nsecret = \"of this test and of no other one\"\n", port)
}

func TestAWorkerServesSeveralGatewaysAndHearsOfOneThatIsGone(t *testing.T) {
	more := redis(t)
	near := newStage(t, setting{more: more})
	far := near.beside(setting{})
	worker := near.worker(near.workers, far.workers)
	ada := near.guest()
	far.guests = near.guests
	ben := far.guest()
	// The nodes know each other.
	eventually(t, "a word from node to node", func() bool {
		ben.emit("news", "hello")
		return len(ada.heard) > 0
	})
	is(t, ben.call("count", 1), `[1,false]`)
	is(t, ada.call("count", 2), `[2,false]`)
	for len(ada.heard) > 0 {
		ada.next()
	}
	// What servers say comes by the first of its gateways, so it does not hear itself: the other node says that it has no server.
	is(t, ada.call("consult", "nothing"), "[[null]]")
	far.gateway.signal(syscall.SIGTERM)
	for got := ada.next(); got.Event != "gone"; got = ada.next() {
	}
	// The other gateway is served on.
	is(t, ada.call("count", 3), `[3,false]`)
	worker.signal(syscall.SIGTERM)
	if code := worker.wait(); code != 0 {
		t.Fatalf("it ends with %d", code)
	}
}

const request = `[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = %[1]s
[extensions]
subjectAltName = DNS:localhost, IP:127.0.0.1
basicConstraints = critical, CA:%[2]t
`

// certificate writes NAME.pem and NAME.key; it is signed by itself without a signer.
func certificate(t *testing.T, folder, name, signer string) {
	t.Helper()
	path := func(name string) string { return filepath.Join(folder, name) }
	if err := os.WriteFile(path(name+".conf"), []byte(fmt.Sprintf(request, name, signer == "")), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"}
	args = append(args, "-config", path(name+".conf"), "-keyout", path(name+".key"), "-out", path(name+".pem"))
	if signer != "" {
		args = append(args, "-CA", path(signer+".pem"), "-CAkey", path(signer+".key"))
	}
	if output, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func TestWorkersAttachByTLSAndWithACertificateOfTheirOwn(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	certificate(t, folder, "ca", "")
	certificate(t, folder, "gateway", "ca")
	s := newStage(t, setting{tls: fmt.Sprintf("cert = [%q]\nkey = [%q]\nclient_ca = %q", file("gateway.pem"), file("gateway.key"), file("ca.pem"))})
	address := "https://" + strings.Replace(s.workers, "127.0.0.1", "localhost", 1)
	authority, err := os.ReadFile(file("ca.pem"))
	s.must(err)
	s.must(os.WriteFile(filepath.Join(s.folder, "trusted.pem"), authority, 0o600))
	// Without a certificate of its own.
	bare := s.aspirant(address)
	bare.line("is tried again")
	certificate(t, folder, "worker", "ca")
	for _, kind := range []string{"worker.pem", "worker.key"} {
		text, err := os.ReadFile(file(kind))
		s.must(err)
		s.must(os.WriteFile(filepath.Join(s.folder, kind), text, 0o600))
	}
	s.worker(address)
	is(t, s.guest().call("echo", "secret"), `["secret"]`)
	// With another authority.
	certificate(t, s.folder, "trusted", "")
	stranger := s.aspirant(address)
	if why := stranger.line("is tried again"); !strings.Contains(why, "certificate") {
		t.Fatal(why)
	}
}

func TestNoClientNoticesThatAWorkerIsKilledUnderLoad(t *testing.T) {
	s := newStage(t, setting{})
	first := s.worker()
	guests := []*guest{s.guest(), s.guest(), s.guest(), s.guest()}
	count := func(from, to int) (answers []chan word) {
		for n := from; n < to; n++ {
			for _, guest := range guests {
				answers = append(answers, guest.ask("count", n))
			}
		}
		return answers
	}
	early := count(0, 200)
	guests[0].call("count", -1)
	s.must(first.cmd.Process.Kill())
	late := count(200, 300)
	second := s.worker()
	for i, answer := range append(early, late...) {
		if got := within(t, answer).Answer; got[0] != float64(i/len(guests)) {
			t.Fatalf("%d is answered %v", i/len(guests), got)
		}
	}
	if who := guests[0].call("who"); strings.Count(who, `"last":299,"since":"start"`) != len(guests) {
		t.Fatal(who)
	}
	// A deploy: the old worker hands over and ends by itself.
	s.worker()
	second.signal(syscall.SIGTERM)
	if code := second.wait(); code != 0 {
		t.Fatalf("it ends with %d", code)
	}
	is(t, guests[1].call("echo", "still"), `["still"]`)
	for _, guest := range guests {
		for len(guest.heard) > 0 {
			if got := guest.next(); got.Lost != "" {
				t.Fatalf("a client noticed: %s", got.Lost)
			}
		}
	}
}

func TestAnEventWhoseHandlerWaitsComesAgainWithAMarkAndKeepsNoOther(t *testing.T) {
	s := newStage(t, setting{})
	first := s.worker()
	ada, grace := s.guest(), s.guest()
	ada.emit("never", 1)
	grace.hears("note", 1, false)
	for n := 10; n < 15; n++ {
		grace.emit("note", n)
		grace.hears("note", n, false)
	}
	// What was handled is said no later than the answer to what comes behind it.
	is(t, grace.call("echo", "said"), `["said"]`)
	s.worker()
	s.must(first.cmd.Process.Kill())
	grace.hears("note", 1, true)
	grace.emit("note", 15)
	grace.hears("note", 15, false)
}

func TestAHandlerThatNeverEndsCountsAsHandledAfterATime(t *testing.T) {
	s := newStage(t, setting{})
	var told ledger
	worker, stop := s.own(Options{HandlerTimeout: 200 * time.Millisecond, Logger: told.logger()}, kitchen)
	guest := s.guest()
	guest.emit("never", 1)
	eventually(t, "an overdue event", func() bool { return worker.Overdue() == 1 })
	if said := told.String(); !strings.Contains(said, `the event "never" counts as handled after 200ms`) {
		t.Fatal(said)
	}
	guest.emit("leave me")
	s.must(stop())
}

func TestAWorkerThatWasStoppedAndGoesOnHandlesNothingThatAnotherHas(t *testing.T) {
	s := newStage(t, setting{silent: "3s"})
	attached := func() { s.gateway.line(`"worker attached"`) }
	first := s.worker()
	attached()
	ada, grace := s.guest(), s.guest()
	first.signal(syscall.SIGSTOP)
	second := s.worker()
	attached()
	var notes []string
	note := func() {
		if got := grace.next(); got.Event == "note" {
			notes = append(notes, text(got.Args))
		}
	}
	for n := 0; n < 200; n++ {
		ada.emit("note", n)
	}
	for len(notes) < 200 {
		note()
	}
	first.signal(syscall.SIGCONT)
	// It comes back as a new worker, and takes all.
	attached()
	second.signal(syscall.SIGTERM)
	if code := second.wait(); code != 0 {
		t.Fatalf("it ends with %d", code)
	}
	ada.emit("note", 200)
	for len(notes) < 201 {
		note()
	}
	for n, got := range notes {
		is(t, strings.Split(strings.Trim(got, "[]"), ",")[0], fmt.Sprint(n))
	}
}

func TestAnEventThatEndsWorkerAfterWorkerIsRefusedAndNoOther(t *testing.T) {
	s := newStage(t, setting{})
	var doomed []*process
	for len(doomed) < 4 {
		doomed = append(doomed, s.worker())
	}
	var guests []*guest
	for len(guests) < 4 {
		guests = append(guests, s.guest())
	}
	answer := guests[0].ask("deadly")
	var others []chan word
	for n := 0; n < 20; n++ {
		for _, guest := range guests[1:] {
			others = append(others, guest.ask("count", n))
		}
	}
	for _, worker := range doomed {
		worker.wait()
	}
	s.worker()
	is(t, text(within(t, answer).Answer), `[{"error":"The backend failed on this event"}]`)
	for i, other := range others {
		if got := within(t, other).Answer; got[0] != float64(i/3) {
			t.Fatalf("%d is answered %v", i/3, got)
		}
	}
}

func TestALinkThatIsCutUnderLoadLosesNothingAndRepeatsNothing(t *testing.T) {
	s := newStage(t, setting{})
	address, cut := s.wire()
	s.worker(address)
	guests := []*guest{s.guest(), s.guest(), s.guest()}
	var answers []chan word
	for n := 0; n < 240; n++ {
		for _, guest := range guests {
			answers = append(answers, guest.ask("count", n))
		}
		if n%80 == 40 {
			cut()
		}
	}
	for i, answer := range answers {
		is(t, text(within(t, answer).Answer), fmt.Sprintf("[%d,false]", i/3))
	}
}

func TestAClientThatLeavesBeforeItIsRefusedHoldsUpNoOther(t *testing.T) {
	s := newStage(t, setting{})
	asked, left := make(chan struct{}), make(chan struct{})
	worker, stop := s.own(Options{}, func(w *Worker) {
		w.Connect(func(_ context.Context, socket *Socket) error {
			if strings.Contains(string(socket.Auth()), "late") {
				close(asked)
				<-left
				return Refuse("too late", nil)
			}
			return nil
		})
		talk(w)
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	s.must(err)
	post(t, conn, `40{"late":true}`)
	<-asked
	conn.Close()
	// The news of its end waits behind the decision.
	eventually(t, "the end of the client", func() bool {
		worker.mu.Lock()
		defer worker.mu.Unlock()
		for _, desk := range worker.desks {
			desk.mu.Lock()
			waits := len(desk.waits)
			desk.mu.Unlock()
			if waits > 0 {
				return true
			}
		}
		return false
	})
	close(left)
	guest, _ := s.visit(map[string]any{})
	// More than a worker may have without having handled it.
	long := strings.Repeat("x", 100_000)
	for n := 0; n < 30; n++ {
		is(t, guest.call("echo", long), text([]any{long}))
	}
	eventually(t, "one desk", func() bool {
		worker.mu.Lock()
		defer worker.mu.Unlock()
		return len(worker.desks) == 1
	})
	s.must(stop())
}

// post makes a WebSocket of Engine.IO that has said this.
func post(t *testing.T, conn net.Conn, said string) {
	t.Helper()
	head := "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	frame := append([]byte{0x81, 0x80 | byte(len(said)), 0, 0, 0, 0}, said...)
	if _, err := conn.Write(append([]byte(head), frame...)); err != nil {
		t.Fatal(err)
	}
}

func TestTheEndOfASocketThatHasMovedIsToldByItsNextWorker(t *testing.T) {
	s := newStage(t, setting{})
	var mu sync.Mutex
	var story []string
	tell := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		story = append(story, line)
	}
	told := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(story, "; ")
	}
	as := func(name string) func(*Worker) {
		return func(w *Worker) {
			w.Connected(func(_ context.Context, socket *Socket) error {
				tell(fmt.Sprint(name, " in ", socket.Recovered()))
				return nil
			})
			w.Disconnected(func(_ context.Context, _ *Socket, reason string) error {
				tell(name + " out " + reason)
				return nil
			})
		}
	}
	first, stop := s.own(Options{}, as("first"))
	guest, _ := s.visit(map[string]any{})
	eventually(t, "the first one", func() bool { return told() == "first in false" })
	_, stopSecond := s.own(Options{}, as("second"))
	s.must(stop())
	eventually(t, "the second one", func() bool { return strings.HasSuffix(told(), "second in true") })
	if len(first.desks) > 0 {
		t.Fatal("the first one keeps a desk")
	}
	within(t, guest.crowd.order(map[string]any{"do": "leave", "guest": guest.name}))
	eventually(t, "the end", func() bool { return strings.Contains(told(), "out") })
	is(t, told(), "first in false; second in true; second out client namespace disconnect")
	s.must(stopSecond())
}

func TestMoreThan16MiBAtOnce(t *testing.T) {
	s := newStage(t, setting{})
	_, stop := s.own(Options{}, func(w *Worker) {
		w.On("flood", func(ctx context.Context, socket *Socket, _ Args) (any, error) {
			for n := 0; n < 40; n++ {
				if err := socket.Emit(ctx, "part", n, strings.Repeat("x", 1<<19)); err != nil {
					return nil, err
				}
			}
			return "all", nil
		})
		w.On("huge", func(ctx context.Context, socket *Socket, _ Args) (any, error) {
			huge := strings.Repeat("x", 17<<20)
			if err := socket.Emit(ctx, "part", -1, huge); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%v is not ErrTooLarge", err)
			}
			return huge, nil
		})
	})
	guest, _ := s.visit(map[string]any{})
	is(t, guest.call("flood"), `["all"]`)
	is(t, guest.call("huge"), `[{"error":"The handler failed"}]`)
	for n := 0; n < 40; n++ {
		got := guest.next()
		if got.Event != "part" || got.Args[0] != float64(n) {
			t.Fatalf("%s %v instead of part %d", got.Event, got.Args[0], n)
		}
	}
	s.must(stop())
}

func TestJSONThatGoDoesNotReadEndsNothing(t *testing.T) {
	s := newStage(t, setting{})
	s.worker()
	guest := s.guest()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	s.must(err)
	defer conn.Close()
	post(t, conn, `40{}`)
	// A number that no float64 holds: JSON, but not for Go.
	said := `421["echo",1e999]`
	frame := append([]byte{0x81, 0x80 | byte(len(said)), 0, 0, 0, 0}, said...)
	_, err = conn.Write(frame)
	s.must(err)
	got := ""
	buffer := make([]byte, 4096)
	for !strings.Contains(got, "431[") {
		s.must(conn.SetReadDeadline(time.Now().Add(patience)))
		n, err := conn.Read(buffer)
		s.must(err)
		got += string(buffer[:n])
	}
	if !strings.Contains(got, `431[{"error":"The handler failed"}]`) {
		t.Fatal(got)
	}
	is(t, guest.call("echo", "well"), `["well"]`)
}

func TestTheExampleRunsWithWhatInitWrites(t *testing.T) {
	folder := t.TempDir()
	init := exec.Command(binary(t), "init", "--worker")
	init.Dir = folder
	printed, err := init.Output()
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`SOCKEYE_KEY=(\S+)`).FindSubmatch(printed)[1]
	text, err := os.ReadFile(filepath.Join(folder, "sockeye.toml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, folder: folder, key: string(key)}
	s.boot(strings.Replace(string(text), "127.0.0.1:9091", "127.0.0.1:0", 1))
	program := filepath.Join(folder, "example")
	build := exec.Command("go", "build", "-o", program, "./example")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "SOCKEYE_KEY="+s.key, "SOCKEYE_GATEWAY="+s.workers)
	start(t, cmd).line("attached to")
	if _, refused := s.visit(map[string]any{}); refused == nil || refused.Refused.Message != "a name is needed" {
		t.Fatalf("%+v", refused)
	}
	named := func(name string) *guest {
		one, refused := s.visit(map[string]any{"auth": map[string]any{"name": name}})
		if refused != nil {
			t.Fatal(refused.Refused.Message)
		}
		return one
	}
	ada := named("ada")
	ben := named("ben")
	ada.hears("joined", "ben")
	is(t, ben.call("say", "hello"), `["said"]`)
	ada.hears("said", "ben", "hello")
	is(t, ben.call("say", 7), `[{"error":"a text of at most 1,000 bytes is needed"}]`)
	within(t, ben.crowd.order(map[string]any{"do": "leave", "guest": ben.name}))
	ada.hears("left", "ben", "client namespace disconnect")
}

func TestAWorkerThatIsRefusedSaysSo(t *testing.T) {
	s := newStage(t, setting{})
	worker, err := New(Options{Key: "sockeye_wrong", Backend: "kitchen"}, s.workers)
	s.must(err)
	err = worker.Run(context.Background())
	var refused *LinkRefused
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "no backend of this name has this key") {
		t.Fatal(err)
	}
}

// away is a worker whose gateway cannot be reached.
func away(t *testing.T) (*Worker, func()) {
	t.Helper()
	var told ledger
	worker, err := New(Options{Key: "sockeye_none", Backend: "kitchen", Logger: told.logger()}, "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	eventually(t, "that it runs", func() bool {
		worker.mu.Lock()
		defer worker.mu.Unlock()
		return worker.runs
	})
	return worker, func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("it does not end")
		}
	}
}

func TestWhatWaitsForAGatewayIsBounded(t *testing.T) {
	worker, stop := away(t)
	ctx := context.Background()
	long := strings.Repeat("x", 4<<20)
	kept := 0
	var err error
	for ; kept < 20 && err == nil; kept++ {
		err = worker.Join(ctx, long)
	}
	if kept != 16 || !errors.Is(err, ErrTooMuchWaits) || !strings.Contains(err.Error(), "the link to it is down, and is tried again") {
		t.Fatalf("%d are kept: %v", kept-1, err)
	}
	if err := worker.Emit(ctx, "news", long); !errors.Is(err, ErrTooMuchWaits) {
		t.Fatal(err)
	}
	// What the gateway waits for is sent in any case.
	ack := &pb.Command{What: &pb.Command_Ack{Ack: &pb.Ack{Socket: "a", Ack: 1, Args: []byte(long)}}}
	if _, err := worker.links[0].command(ack, true); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := worker.Emit(ctx, "news"); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
}

func TestNobodyWaitsForEverForAGatewayThatIsAway(t *testing.T) {
	worker, stop := away(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var waits sync.WaitGroup
	var answered int32
	for _, ask := range []func() error{
		func() error { _, err := worker.Ask(ctx, "ready?"); return err },
		func() error { _, err := worker.Fetch(ctx); return err },
		func() error { _, err := worker.Servers().Ask(ctx, "load"); return err },
	} {
		ask := ask
		waits.Add(1)
		go func() {
			defer waits.Done()
			if err := ask(); errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
				atomic.AddInt32(&answered, 1)
			}
		}()
	}
	waits.Wait()
	if answered != 3 {
		t.Fatalf("%d of 3 have an error", answered)
	}
	stop()
}

func TestMistakesOfTheProgram(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a worker without a gateway")
	}
	for _, address := range []string{"", "ftp://a:1", "a:1/b"} {
		if _, err := New(Options{}, address); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", address, err)
		}
	}
	worker, err := New(Options{}, "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Emit(context.Background(), "news"); !errors.Is(err, ErrEnded) {
		t.Errorf("a command before Run: %v", err)
	}
	nothing := func(context.Context, *Socket, Args) (any, error) { return nil, nil }
	worker.On("news", nothing)
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, `second handler for "news" in /`) {
			t.Errorf("%s", said)
		}
	}()
	worker.On("news", nothing)
}
