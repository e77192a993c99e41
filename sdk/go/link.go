package worker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "sockeye.example/worker/internal/workerpb"
)

const (
	method           = "/sockeye.worker.v1.Workers/Attach"
	signOfLife       = time.Second
	unreachableAfter = 4
	// Commands that the gateway has not got: while it is away, they wait here.
	keptBytesMax = 64 << 20
	// Cost of one beside its bytes.
	commandBytes = 512
	// Leaving waits so long for the end of what is under way.
	farewell = 30 * time.Second
	batchMax = 1_000
	// The gateway takes 16 MiB in one message, and nothing larger comes through: a command must fit.
	commandBytesMax = 12 << 20
	// A message that has so much goes: what is behind it goes with the next one.
	messageBytes    = 1 << 20
	messageBytesMax = 64 << 20
)

var retries = [...]time.Duration{20, 50, 100, 200, 500, 1_000}

type kept struct {
	command *pb.Command
	size    int
}

// link is the stream to one gateway: numbers, what is kept until the gateway has it, and coming back after a cut.
type link struct {
	gateway        string
	address        string
	secure         *tls.Config
	key            string
	hello          pb.Hello
	handlerTimeout time.Duration
	log            *log.Logger
	// take gets each item in order; lost is called when the sockets have moved to other workers.
	take func(*link, *pb.Item, *item)
	lost func(*link)

	// wake has one token when there is something to say.
	wake chan struct{}
	// leaves is closed when the worker wants to end, gone when the link has ended for good.
	leaves, gone chan struct{}
	leaveOnce    sync.Once

	mu       sync.Mutex
	progress *progress
	known    bool
	attached bool
	ended    bool
	failures int
	// When this process last ran, and for how long it may have stood still without a question.
	seen  time.Time
	still time.Duration
	// The question whether the sockets are still this worker's; sure is closed while they are.
	asks uint64
	sure chan struct{}
	// The item that is alone and begins.
	begun uint64
	// Commands so far, those that the gateway may not have, and how many of these were sent on this stream.
	commands  uint64
	kept      []kept
	keptBytes int
	sent      int
	// Events that counted as handled before they were, and how many when the gateway began to count.
	overdue, overdueBefore uint64
	welcomed               chan struct{}
}

func newLink(gateway string, options Options, instance string, away bool) (*link, error) {
	address := gateway
	scheme, rest, found := strings.Cut(gateway, "://")
	if found {
		address = rest
	}
	address = strings.TrimSuffix(address, "/")
	if address == "" || strings.Contains(address, "/") || found && scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("cannot use the gateway address %q: give host:port, or https://host:port for TLS", gateway)
	}
	secure := options.TLS
	if secure == nil && scheme == "https" && found {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	l := &link{
		gateway:        gateway,
		address:        address,
		secure:         secure,
		key:            options.Key,
		handlerTimeout: options.HandlerTimeout,
		log:            options.Logger,
		wake:           make(chan struct{}, 1),
		leaves:         make(chan struct{}),
		gone:           make(chan struct{}),
		welcomed:       make(chan struct{}),
		sure:           closed(),
		seen:           time.Now(),
		still:          math.MaxInt64,
	}
	l.hello.Backend = options.Backend
	l.hello.Instance = instance
	l.hello.Weight = options.Weight
	l.hello.Away = away
	l.hello.Announces = true
	l.hello.Version = 1
	l.begin()
	return l, nil
}

func closed() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// begin counts from 1, for a gateway that does not know this worker.
func (l *link) begin() {
	l.progress = newProgress()
	l.overdueBefore = l.overdue
	l.begun, l.commands, l.sent, l.keptBytes = 0, 0, 0, 0
	l.kept = nil
}

// command gives the command's number. answers: the gateway waits for it, or it ends what the gateway has, so it is kept in any case.
func (l *link) command(command *pb.Command, answers bool) (uint64, error) {
	size := commandBytes + proto.Size(command)
	if size > commandBytesMax {
		return 0, fmt.Errorf("cannot send %d bytes in one command: %w, the gateway takes 12 MiB", size, ErrTooLarge)
	}
	if text, is := unfit(command); is {
		return 0, fmt.Errorf("cannot send %q: %w", text, ErrNotText)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return 0, fmt.Errorf("cannot send a command: %w", ErrEnded)
	}
	if l.keptBytes+size > keptBytesMax && !answers {
		return 0, fmt.Errorf("cannot send a command: %w at %s: %d MiB are kept, and %s", ErrTooMuchWaits, l.gateway, keptBytesMax>>20, l.state())
	}
	l.kept = append(l.kept, kept{command, size})
	l.keptBytes += size
	l.commands++
	l.stir()
	return l.commands, nil
}

// stir wakes the writer.
func (l *link) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// begins waits until the item may be handled; false: it is another worker's by now, or this one has ended.
func (l *link) begins(it *item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isInDoubt()
	l.waitUntilSure()
	if it.alone && it.progress == l.progress && !l.ended {
		// If this process ends over it, the gateway is to know that it had begun.
		l.begun = it.number
		l.ask()
		l.waitUntilSure()
	}
	return it.progress == l.progress && !l.ended
}

// waitUntilSure lets go of the lock meanwhile.
func (l *link) waitUntilSure() {
	for !l.isSure() && !l.ended {
		sure := l.sure
		l.mu.Unlock()
		select {
		case <-sure:
		case <-l.gone:
		}
		l.mu.Lock()
	}
}

func (l *link) isSure() bool {
	select {
	case <-l.sure:
		return true
	default:
		return false
	}
}

func (l *link) beSure() {
	if !l.isSure() {
		close(l.sure)
	}
}

// isInDoubt asks if this process stood still for so long that its sockets may be another worker's: nothing is handled before the
// gateway has said.
func (l *link) isInDoubt() {
	now := time.Now()
	still := now.Sub(l.seen)
	l.seen = now
	if still >= l.still && l.isSure() {
		l.ask()
	}
}

func (l *link) ask() {
	if l.isSure() {
		l.sure = make(chan struct{})
	}
	l.asks++
	l.stir()
}

// done: it is handled.
func (l *link) done(it *item) {
	l.mu.Lock()
	it.progress.done(it)
	l.mu.Unlock()
	l.stir()
}

// watch lets an event count as handled after a time, whatever its handler does.
func (l *link) watch(it *item, event string) *time.Timer {
	return time.AfterFunc(l.handlerTimeout, func() {
		l.mu.Lock()
		l.overdue++
		l.mu.Unlock()
		l.log.Printf("the event %q counts as handled after %s, although its handler is not done: a crash would lose it now (HandlerTimeout sets the time)", event, l.handlerTimeout)
		l.done(it)
	})
}

func (l *link) state() string {
	if l.attached {
		return "the link to it is there"
	}
	return "the link to it is down, and is tried again"
}

func (l *link) stateNow() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state()
}

func (l *link) isAttached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attached
}

// leave finishes what the worker has and hands its sockets over; run ends then. It ends in half a minute also if the gateway does
// not answer, and at once if it is away.
func (l *link) leave() {
	l.leaveOnce.Do(func() { close(l.leaves) })
	l.stir()
}

func (l *link) isLeaving() bool {
	select {
	case <-l.leaves:
		return true
	default:
		return false
	}
}

// run ends when the gateway has said goodbye. The error is a LinkRefused.
func (l *link) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.streams(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-l.leaves:
		err = l.bidFarewell(ended, cancel)
	}
	l.mu.Lock()
	l.ended, l.attached = true, false
	l.mu.Unlock()
	close(l.gone)
	return err
}

func (l *link) bidFarewell(ended <-chan error, cancel func()) error {
	if l.isAttached() {
		patience := time.NewTimer(farewell)
		defer patience.Stop()
		select {
		case err := <-ended:
			return err
		case <-patience.C:
		}
	}
	cancel()
	return <-ended
}

// streams makes one after the other.
func (l *link) streams(ctx context.Context) error {
	for ctx.Err() == nil {
		goodbye, err := l.stream(ctx)
		l.mu.Lock()
		wasThere := l.attached
		l.attached = false
		wait := retries[min(l.failures, len(retries)-1)] * time.Millisecond
		l.failures++
		l.mu.Unlock()
		if goodbye || ctx.Err() != nil || l.isLeaving() {
			return nil
		}
		if refused := l.broken(err, wasThere); refused != nil {
			return refused
		}
		select {
		case <-time.After(time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))):
		case <-l.leaves:
			return nil
		}
	}
	return nil
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func (l *link) broken(err error, wasThere bool) error {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.InvalidArgument, codes.PermissionDenied:
		return &LinkRefused{l.gateway, status.Convert(err).Message()}
	}
	l.mu.Lock()
	failures := l.failures
	l.mu.Unlock()
	// One line for the end of a link, and one for an outage that lasts.
	if wasThere || failures == unreachableAfter {
		l.log.Printf("the link to %s ended, and is tried again: %v", l.gateway, err)
	}
	return nil
}

func (l *link) dial() (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if l.secure != nil {
		security = credentials.NewTLS(l.secure)
	}
	return grpc.NewClient(l.address,
		grpc.WithTransportCredentials(security),
		// Each stream has a connection of its own, which is tried once: this package decides when again.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax)),
	)
}

// stream attaches once; goodbye: the gateway let the worker go.
func (l *link) stream(ctx context.Context) (goodbye bool, err error) {
	conn, err := l.dial()
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+l.key)
	about := &grpc.StreamDesc{StreamName: "Attach", ServerStreams: true, ClientStreams: true}
	stream, err := conn.NewStream(ctx, about, method)
	if err != nil {
		return false, err
	}
	// An error of sending is only that the stream is over: receiving says why.
	if err := stream.SendMsg(&pb.FromWorker{Hello: l.introduction()}); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	first := new(pb.ToWorker)
	if err := stream.RecvMsg(first); err != nil {
		return false, err
	}
	l.welcome(first.GetWelcome())
	writer := make(chan struct{})
	go func() {
		defer close(writer)
		l.write(ctx, stream)
	}()
	defer func() {
		cancel()
		<-writer
	}()
	for message := first; ; {
		if l.hear(message) {
			return true, nil
		}
		message = new(pb.ToWorker)
		if err := stream.RecvMsg(message); err != nil {
			return false, err
		}
	}
}

func (l *link) introduction() *pb.Hello {
	hello := proto.Clone(&l.hello).(*pb.Hello)
	l.mu.Lock()
	defer l.mu.Unlock()
	hello.Received = l.progress.received
	hello.Resumes = l.known
	return hello
}

func (l *link) welcome(welcome *pb.Welcome) {
	l.mu.Lock()
	l.failures = 0
	l.attached = true
	lost := !welcome.GetResumed() && l.known
	if lost {
		if kept := len(l.kept); kept > 0 {
			l.log.Printf("%d commands to %s are lost: it gave this worker up", kept, l.gateway)
		}
		l.begin()
	}
	l.known = true
	// It was last heard a sign of life ago.
	l.still = time.Duration(welcome.GetSilentMs()) * time.Millisecond / 2
	if l.still == 0 {
		l.still = math.MaxInt64
	}
	l.seen = time.Now()
	l.beSure()
	l.progress.again()
	l.confirm(welcome.GetCommands())
	// Commands that the gateway has not got go again, under the same numbers.
	l.sent = 0
	select {
	case <-l.welcomed:
	default:
		close(l.welcomed)
	}
	l.mu.Unlock()
	if lost {
		l.lost(l)
	}
}

// hear takes a message in; true: it is the last one.
func (l *link) hear(message *pb.ToWorker) bool {
	l.mu.Lock()
	l.confirm(message.GetCommands())
	if message.GetSure() != 0 && message.GetSure() == l.asks {
		l.beSure()
	}
	l.isInDoubt()
	taken := make([]*item, len(message.GetItems()))
	for i, one := range message.GetItems() {
		taken[i] = l.progress.take(one.GetAlone())
	}
	l.mu.Unlock()
	for i, one := range message.GetItems() {
		l.take(l, one, taken[i])
	}
	if len(taken) > 0 {
		l.stir()
	}
	return message.GetGoodbye()
}

func (l *link) confirm(commands uint64) {
	first := l.commands - uint64(len(l.kept)) + 1
	if commands < first {
		return
	}
	known := min(len(l.kept), int(commands-first+1))
	for i := 0; i < known; i++ {
		l.keptBytes -= l.kept[i].size
		l.kept[i] = kept{}
	}
	l.kept = l.kept[known:]
	l.sent -= known
	if l.sent < 0 {
		l.sent = 0
	}
}

func (l *link) write(ctx context.Context, stream grpc.ClientStream) {
	pause := time.NewTimer(signOfLife)
	defer pause.Stop()
	for ctx.Err() == nil {
		message, more := l.next()
		if stream.SendMsg(message) != nil {
			// The reader is told why.
			return
		}
		if more {
			continue
		}
		if !pause.Stop() {
			select {
			case <-pause.C:
			default:
			}
		}
		pause.Reset(signOfLife)
		select {
		case <-l.wake:
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// next is what came of the items handled so far, and the number up to which all are. Whether there is more to say at once.
func (l *link) next() (*pb.FromWorker, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isInDoubt()
	first := l.commands - uint64(len(l.kept)) + uint64(l.sent) + 1
	var commands []*pb.Command
	for size := 0; l.sent < len(l.kept) && len(commands) < batchMax && size < messageBytes; l.sent++ {
		commands = append(commands, l.kept[l.sent].command)
		size += l.kept[l.sent].size
	}
	message := &pb.FromWorker{First: first, Commands: commands, Overdue: l.overdue - l.overdueBefore}
	// Items are handled when all that came of them is said, and a worker that leaves says nothing behind that.
	last := l.sent == len(l.kept)
	if last {
		message.Handled, message.Beside = l.progress.next()
		message.Leaving = l.isLeaving()
	}
	if l.begun > message.Handled {
		message.Begun = l.begun
	}
	if !l.isSure() {
		message.Asks = l.asks
	}
	return message, !last || l.progress.waits()
}
