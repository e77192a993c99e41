// Package worker is for programs that hold the logic of Socket.IO clients while the gateway holds their sockets. The program may
// crash, lose its connection or be deployed: its clients notice a delay and nothing else. docs/backends.md says what is promised.
package worker

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	pb "sockeye.example/worker/internal/workerpb"
)

// Without another word, a question waits so long for answers.
const askTimeout = 10 * time.Second

// The gateway answers in time if it can; so long after it nothing is waited for any more.
const late = time.Second

// Options of a worker.
type Options struct {
	// Key comes from `sockeye api-key NAME`. The gateway has its entry in backends.NAME.api_keys.
	Key string
	// Backend is the NAME of that table.
	Backend string
	// Weight is the share of the sockets, compared with other workers; 0 counts as 1.
	Weight uint32
	// TLS is for a gateway with workers.cert: roots, and a certificate of the worker's own if the gateway asks for one. An address
	// with https:// does without: the roots are those of the system then.
	TLS *tls.Config
	// HandlerTimeout is the time after which an event counts as handled in any case; 0 is 30 s.
	HandlerTimeout time.Duration
	// Logger gets a line for each notable moment; nil is log.Default().
	Logger *log.Logger
}

// Worker holds the logic of namespaces. It is also its namespace "/".
type Worker struct {
	*Namespace

	log     *log.Logger
	links   []*link
	context context.Context
	cancel  context.CancelFunc
	ready   chan struct{}
	once    sync.Once

	mu         sync.Mutex
	runs       bool
	namespaces map[string]*Namespace
	desks      map[string]*desk
	queries    map[uint64]*query
	numbers    uint64
	nodeGone   func(ctx context.Context, node uint32, life uint64) error
}

// query waits for an answer.
type query struct {
	link   *link
	number uint64
	answer chan any
}

// New makes a worker for gateways, each "host:port", or "https://host:port" for TLS. With several nodes of one cluster it attaches to
// all of them.
func New(options Options, gateways ...string) (*Worker, error) {
	if options.HandlerTimeout == 0 {
		options.HandlerTimeout = 30 * time.Second
	}
	if options.Logger == nil {
		options.Logger = log.Default()
	}
	if len(gateways) == 0 {
		return nil, errors.New("cannot make a worker without the address of a gateway")
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("cannot make a name for this worker: %w", err)
	}
	w := &Worker{
		log:        options.Logger,
		ready:      make(chan struct{}),
		namespaces: map[string]*Namespace{},
		desks:      map[string]*desk{},
		queries:    map[uint64]*query{},
	}
	w.context, w.cancel = context.WithCancel(context.Background())
	w.Namespace = w.Of("/")
	for i, gateway := range gateways {
		link, err := newLink(gateway, options, hex.EncodeToString(random), i > 0)
		if err != nil {
			return nil, err
		}
		link.take, link.lost = w.take, w.lose
		w.links = append(w.links, link)
	}
	return w, nil
}

// Of is another namespace; it is made when it is first named. The handlers of "*" are for all namespaces that have none of their own.
func (w *Worker) Of(name string) *Namespace {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.namespaces[name] == nil {
		n := newNamespace(w, name)
		// Later a name may be a client's word: a command for it lets nobody in.
		n.isOpen = !w.runs
		w.namespaces[name] = n
	}
	return w.namespaces[name]
}

// namespaceOf is that of a client. Clients may choose names: only those of the program are kept.
func (w *Worker) namespaceOf(name string) *Namespace {
	w.mu.Lock()
	own, all := w.namespaces[name], w.namespaces[every]
	w.mu.Unlock()
	if own != nil && (own.handlesClients() || (all == nil && own.isOpen)) {
		return own
	}
	if all == nil {
		return missing(w, name)
	}
	n := newNamespace(w, name)
	n.lender = all
	return n
}

// NodeGone registers the handler for the end of another node of the cluster: its sockets are gone, without a word about each. life is
// the same in all news of this one end, which come from each gateway.
func (w *Worker) NodeGone(handler func(ctx context.Context, node uint32, life uint64) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodeGone = handler
}

// Ready is closed when a gateway has welcomed the worker.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Attached is the number of gateways that the worker is attached to now.
func (w *Worker) Attached() int {
	attached := 0
	for _, link := range w.links {
		if link.isAttached() {
			attached++
		}
	}
	return attached
}

// Overdue counts events that counted as handled because their handlers took longer than HandlerTimeout.
func (w *Worker) Overdue() uint64 {
	overdue := uint64(0)
	for _, link := range w.links {
		link.mu.Lock()
		overdue += link.overdue
		link.mu.Unlock()
	}
	return overdue
}

// Run works until ctx is done. Then the worker finishes what it has, hands its sockets over, and Run returns nil: at once if the
// gateway is away, and after 30 s if it does not answer. A gateway that refuses the worker is a LinkRefused. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.runs
	w.runs = true
	w.mu.Unlock()
	if again {
		return errors.New("cannot run a worker twice: make another one")
	}
	ended := make(chan error, len(w.links))
	for _, link := range w.links {
		go w.attach(link, ended)
	}
	var err error
	over := ctx.Done()
	for left := len(w.links); left > 0; {
		select {
		case cause := <-ended:
			left--
			if cause == nil {
				continue
			}
			if err == nil {
				err = cause
			}
		case <-over:
		}
		over = nil
		for _, link := range w.links {
			link.leave()
		}
	}
	w.cancel()
	w.dropQueries(nil, "this worker has ended")
	return err
}

func (w *Worker) attach(link *link, ended chan<- error) {
	go func() {
		select {
		case <-link.welcomed:
			w.once.Do(func() { close(w.ready) })
		case <-link.gone:
		}
	}()
	ended <- link.run()
}

// linkFor is the gateway by which a command goes: that of the event that ctx belongs to, else one that the worker is attached to.
func (w *Worker) linkFor(ctx context.Context) *link {
	if own, ok := ctx.Value(linkKey{}).(*link); ok {
		return own
	}
	for _, link := range w.links {
		if link.isAttached() {
			return link
		}
	}
	return w.links[0]
}

func (w *Worker) command(ctx context.Context, link *link, command *pb.Command) (uint64, error) {
	w.mu.Lock()
	runs := w.runs
	w.mu.Unlock()
	if !runs {
		return 0, fmt.Errorf("cannot send a command: %w: call it from a handler, or when Ready is closed", ErrEnded)
	}
	command.Traceparent = Traceparent(ctx)
	_, ends := command.What.(*pb.Command_Disconnect)
	return link.command(command, ends)
}

// ask sends a command with the number of a query, and waits little longer than the timeout, also for a gateway that is away.
func (w *Worker) ask(ctx context.Context, link *link, timeout time.Duration, make_ func(number uint64) *pb.Command) (any, error) {
	one := &query{link: link, answer: make(chan any, 1)}
	w.mu.Lock()
	w.numbers++
	number := w.numbers
	w.queries[number] = one
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.queries, number)
		w.mu.Unlock()
	}()
	command, err := w.command(ctx, link, make_(number))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	one.number = command
	w.mu.Unlock()
	patience := time.NewTimer(timeout + late)
	defer patience.Stop()
	select {
	case answer := <-one.answer:
		if err, is := answer.(error); is {
			return nil, err
		}
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, fmt.Errorf("%w: %s did not give one in %s; %s", ErrNoAnswer, link.gateway, timeout, link.stateNow())
	}
}

// timeoutOf is what is left of ctx, else the usual time.
func timeoutOf(ctx context.Context) time.Duration {
	until, ok := ctx.Deadline()
	if !ok {
		return askTimeout
	}
	// ctx ends before the gateway's last word could come: so much earlier it has to speak.
	left := time.Until(until) - 100*time.Millisecond
	if left < time.Millisecond {
		left = time.Millisecond
	}
	return left
}

func (w *Worker) take(link *link, one *pb.Item, it *item) {
	switch what := one.What.(type) {
	case *pb.Item_Connect:
		w.open(link, what.Connect, nil).put(work{what.Connect, one.Redelivered, it})
	case *pb.Item_Resume:
		w.open(link, what.Resume.GetConnect(), what.Resume).put(work{what.Resume, one.Redelivered, it})
	case *pb.Item_Event:
		w.toDesk(link, what.Event.Socket, work{what.Event, one.Redelivered, it})
	case *pb.Item_Upgraded:
		w.toDesk(link, what.Upgraded.Socket, work{what.Upgraded, one.Redelivered, it})
	case *pb.Item_Moved:
		w.toDesk(link, what.Moved.Socket, work{what.Moved, one.Redelivered, it})
	case *pb.Item_Gone:
		w.toDesk(link, what.Gone.Socket, work{what.Gone, one.Redelivered, it})
	case *pb.Item_Part:
		if !w.toDesk(link, what.Part.Socket, work{what.Part, one.Redelivered, it}) {
			w.end(link, what.Part.Socket)
		}
	case *pb.Item_Answers:
		w.answered(what.Answers.Query, what.Answers)
		link.done(it)
	case *pb.Item_Found:
		w.answered(what.Found.Query, what.Found)
		link.done(it)
	case *pb.Item_Failed:
		w.failed(link, what.Failed)
		link.done(it)
	case *pb.Item_Told:
		w.handleBeside(link, it, func(ctx context.Context) error { return w.told(ctx, link, what.Told) })
	case *pb.Item_NodeGone:
		w.handleBeside(link, it, func(ctx context.Context) error { return w.toldOfNode(ctx, what.NodeGone) })
	default:
		// Kinds of items that a newer gateway has are passed over.
		link.done(it)
	}
}

func (w *Worker) open(link *link, connect *pb.Connect, resume *pb.Resume) *desk {
	socket := newSocket(w.namespaceOf(connect.GetNamespace()), link, connect)
	if resume != nil {
		socket.restore(resume)
	}
	desk := newDesk(w, socket)
	w.mu.Lock()
	w.desks[socket.id] = desk
	w.mu.Unlock()
	return desk
}

func (w *Worker) toDesk(link *link, socket string, one work) bool {
	w.mu.Lock()
	desk := w.desks[socket]
	w.mu.Unlock()
	if desk == nil || desk.socket.link != link {
		link.done(one.it)
		return false
	}
	desk.put(one)
	return true
}

// end: its handlers heard of it before.
func (w *Worker) end(link *link, socket string) {
	ended := &pb.Command{What: &pb.Command_Ended{Ended: &pb.Ended{Socket: socket}}}
	if _, err := link.command(ended, true); err != nil {
		w.log.Printf("cannot tell the end of %s: %v", socket, err)
	}
}

func (w *Worker) forget(one *desk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desks[one.socket.id] == one {
		delete(w.desks, one.socket.id)
	}
}

// handleBeside is for what is about no socket.
func (w *Worker) handleBeside(link *link, it *item, handle func(ctx context.Context) error) {
	go func() {
		if !link.begins(it) {
			return
		}
		ctx := context.WithValue(w.context, linkKey{}, link)
		if err := guarded(func() error { return handle(ctx) }); err != nil {
			w.log.Printf("cannot handle what is about no socket: %v", err)
		}
		link.done(it)
	}()
}

func (w *Worker) toldOfNode(ctx context.Context, gone *pb.NodeGone) error {
	w.mu.Lock()
	handler := w.nodeGone
	w.mu.Unlock()
	if handler == nil {
		return nil
	}
	return handler(ctx, gone.GetNode(), gone.GetLife())
}

func (w *Worker) answered(number uint64, answer any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if query := w.queries[number]; query != nil {
		query.tell(answer)
	}
}

// tell does not wait: the first word counts.
func (q *query) tell(answer any) {
	select {
	case q.answer <- answer:
	default:
	}
}

func (w *Worker) failed(link *link, failed *pb.Failed) {
	w.log.Printf("command %d failed: %s", failed.GetCommand(), failed.GetMessage())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, query := range w.queries {
		if query.link == link && query.number == failed.GetCommand() {
			query.tell(&Failed{failed.GetMessage()})
		}
	}
}

// lose: the gateway gave this worker up, and its sockets to others.
func (w *Worker) lose(link *link) {
	w.mu.Lock()
	var lost []*desk
	for _, desk := range w.desks {
		if desk.socket.link == link {
			lost = append(lost, desk)
		}
	}
	w.mu.Unlock()
	for _, desk := range lost {
		desk.lose()
	}
	w.dropQueries(link, "the gateway gave this worker's sockets to others")
}

// dropQueries ends those of one gateway, or all.
func (w *Worker) dropQueries(link *link, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, query := range w.queries {
		if link == nil || query.link == link {
			query.tell(fmt.Errorf("%w: %s", ErrNoAnswer, why))
		}
	}
}
