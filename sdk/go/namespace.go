package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "sockeye.example/worker/internal/workerpb"
)

// Handler handles an event. What it returns is the client's ack: nil for no value, one value, or Values. []byte are binary values, also
// within []any and map[string]any. ctx ends when the socket is gone, or moved to another worker.
type Handler func(ctx context.Context, socket *Socket, args Args) (any, error)

// every is the name of a namespace whose handlers are for all that have none of their own.
const every = "*"

// Namespace has the handlers of one namespace, and reaches all its sockets.
type Namespace struct {
	Operator
	name    string
	worker  *Worker
	servers *Servers
	// Of a namespace that a client named: the one whose handlers are called.
	lender *Namespace
	// The program named it before it ran: it lets clients in, also without a handler.
	isOpen bool

	mu             sync.RWMutex
	events         map[string]Handler
	onConnect      func(ctx context.Context, socket *Socket) error
	onConnected    func(ctx context.Context, socket *Socket) error
	onDisconnected func(ctx context.Context, socket *Socket, reason string) error
}

func newNamespace(worker *Worker, name string) *Namespace {
	n := &Namespace{name: name, worker: worker, events: map[string]Handler{}}
	n.Operator = Operator{namespace: n, all: true}
	n.servers = &Servers{namespace: n, handlers: map[string]ServerHandler{}}
	return n
}

// missing is a namespace that the program does not have. A socket of another worker may be in one, such as an earlier version of the program.
func missing(worker *Worker, name string) *Namespace {
	n := newNamespace(worker, name)
	n.onConnect = func(context.Context, *Socket) error { return Refuse("Invalid namespace", nil) }
	n.onConnected = func(ctx context.Context, socket *Socket) error { return socket.Disconnect(ctx, false) }
	return n
}

// source is the namespace that has its handlers.
func (n *Namespace) source() *Namespace {
	if n.lender != nil {
		return n.lender
	}
	return n
}

func (n *Namespace) handlesClients() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.events) > 0 || n.onConnect != nil || n.onConnected != nil || n.onDisconnected != nil
}

// Name is "/" or what Of was given; of a socket's namespace the name that its client said.
func (n *Namespace) Name() string { return n.name }

// Servers are the other servers of the namespace.
func (n *Namespace) Servers() *Servers { return n.servers }

// On registers the handler of an event. A second one for the same event is a mistake of the program, and panics.
func (n *Namespace) On(event string, handler Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.events[event] != nil {
		panic(fmt.Sprintf("worker: cannot register a second handler for %q in %s", event, n.name))
	}
	n.events[event] = handler
}

// Connect registers the handler that decides: it returns a Refused, or lets the client in. It is not called for sockets that come from
// another worker. Without it, a namespace that the program has lets everybody in.
func (n *Namespace) Connect(handler func(ctx context.Context, socket *Socket) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onConnect != nil {
		panic("worker: cannot register a second Connect handler in " + n.name)
	}
	n.onConnect = handler
}

// Connected registers the handler for sockets that are in; also for one that comes from another worker (Socket.Recovered).
func (n *Namespace) Connected(handler func(ctx context.Context, socket *Socket) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onConnected != nil {
		panic("worker: cannot register a second Connected handler in " + n.name)
	}
	n.onConnected = handler
}

// Disconnected registers the handler for sockets that are gone. Socket.Rooms are those that it was in.
func (n *Namespace) Disconnected(handler func(ctx context.Context, socket *Socket, reason string) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onDisconnected != nil {
		panic("worker: cannot register a second Disconnected handler in " + n.name)
	}
	n.onDisconnected = handler
}

func (n *Namespace) handler(event string) Handler {
	n = n.source()
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.events[event]
}

func (n *Namespace) connect(ctx context.Context, socket *Socket) error {
	n = n.source()
	n.mu.RLock()
	handler := n.onConnect
	n.mu.RUnlock()
	if handler == nil {
		return nil
	}
	return handler(ctx, socket)
}

func (n *Namespace) connected(ctx context.Context, socket *Socket) error {
	n = n.source()
	n.mu.RLock()
	handler := n.onConnected
	n.mu.RUnlock()
	if handler == nil {
		return nil
	}
	return handler(ctx, socket)
}

func (n *Namespace) disconnected(ctx context.Context, socket *Socket, reason string) error {
	n = n.source()
	n.mu.RLock()
	handler := n.onDisconnected
	n.mu.RUnlock()
	if handler == nil {
		return nil
	}
	return handler(ctx, socket, reason)
}

// Operator names sockets, on all nodes. Its methods give new ones.
type Operator struct {
	namespace *Namespace
	// Of a socket: commands for it go by its gateway.
	link  *link
	rooms []string
	// The whole namespace. Without it an empty list of rooms is nobody.
	all      bool
	except   []string
	volatile bool
}

// To adds the members of these rooms; the id of a socket is a room that holds it alone. What was for the whole namespace is for them alone.
func (o Operator) To(rooms ...string) Operator {
	o.all = false
	o.rooms = append(append([]string(nil), o.rooms...), rooms...)
	return o
}

// But leaves out the members of these rooms.
func (o Operator) But(rooms ...string) Operator {
	o.except = append(append([]string(nil), o.except...), rooms...)
	return o
}

// Volatile drops events for clients that cannot take them this instant.
func (o Operator) Volatile() Operator {
	o.volatile = true
	return o
}

func (o Operator) target() (*pb.Target, error) {
	if o.namespace.name == every {
		return nil, ErrEvery
	}
	if len(o.rooms) == 0 && !o.all {
		return nil, ErrNobody
	}
	return &pb.Target{Namespace: o.namespace.name, Rooms: o.rooms, All: o.all, Except: o.except}, nil
}

func (o Operator) way(ctx context.Context) *link {
	if o.link != nil {
		return o.link
	}
	return o.namespace.worker.linkFor(ctx)
}

func (o Operator) send(ctx context.Context, command *pb.Command) error {
	_, err := o.namespace.worker.command(ctx, o.way(ctx), command)
	return err
}

func (o Operator) emission(event string, args []any) (*pb.Emit, error) {
	to, err := o.target()
	if err != nil {
		return nil, fmt.Errorf("cannot emit %q: %w", event, err)
	}
	encoded, attachments, err := encode(args)
	if err != nil {
		return nil, fmt.Errorf("cannot emit %q: %w", event, err)
	}
	return &pb.Emit{To: to, Event: event, Args: encoded, Attachments: attachments, Volatile: o.volatile}, nil
}

// Emit sends an event. It does not wait. The error says that it was not kept for the gateway.
func (o Operator) Emit(ctx context.Context, event string, args ...any) error {
	emit, err := o.emission(event, args)
	if err != nil {
		return err
	}
	return o.send(ctx, &pb.Command{What: &pb.Command_Emit{Emit: emit}})
}

// Ask sends an event that wants acks, and waits for them: until the deadline of ctx, else 10 s. If some are missing, the error is an
// AskTimeout with those that came.
func (o Operator) Ask(ctx context.Context, event string, args ...any) ([]Args, error) {
	emit, err := o.emission(event, args)
	if err != nil {
		return nil, err
	}
	timeout := timeoutOf(ctx)
	answer, err := o.namespace.worker.ask(ctx, o.way(ctx), timeout, func(number uint64) *pb.Command {
		ask := &pb.Ask{Query: number, Emit: emit, TimeoutMs: millis(timeout)}
		return &pb.Command{What: &pb.Command_Ask{Ask: ask}}
	})
	if err != nil {
		return nil, err
	}
	return answersOf(answer)
}

func answersOf(answer any) ([]Args, error) {
	got, ok := answer.(*pb.Answers)
	if !ok {
		return nil, fmt.Errorf("%w: it is of another kind", ErrNoAnswer)
	}
	answers := make([]Args, 0, len(got.GetAnswers()))
	for _, one := range got.GetAnswers() {
		args, err := decode(one.GetArgs(), one.GetAttachments())
		if err != nil {
			return nil, err
		}
		answers = append(answers, args)
	}
	if got.GetMissing() > 0 {
		return answers, &AskTimeout{answers, got.GetMissing()}
	}
	return answers, nil
}

func millis(time time.Duration) uint32 { return uint32(time.Milliseconds()) }

// Member is a socket that Fetch found, as it was then.
type Member struct {
	Operator
	ID    string
	Rooms []string
	// Data is what Socket.SetData left: JSON, "{}" without any.
	Data json.RawMessage
}

// Fetch finds the sockets that are meant, wherever their workers are.
func (o Operator) Fetch(ctx context.Context) ([]Member, error) {
	of, err := o.target()
	if err != nil {
		return nil, fmt.Errorf("cannot fetch: %w", err)
	}
	timeout := timeoutOf(ctx)
	answer, err := o.namespace.worker.ask(ctx, o.way(ctx), timeout, func(number uint64) *pb.Command {
		fetch := &pb.Fetch{Query: number, Of: of, TimeoutMs: millis(timeout)}
		return &pb.Command{What: &pb.Command_Fetch{Fetch: fetch}}
	})
	if err != nil {
		return nil, err
	}
	found, ok := answer.(*pb.Found)
	if !ok || found.GetIncomplete() {
		return nil, fmt.Errorf("%w: a node of the cluster did not tell all its sockets in time", ErrNoAnswer)
	}
	members := make([]Member, 0, len(found.GetSockets()))
	for _, one := range found.GetSockets() {
		data := json.RawMessage(one.GetData())
		if len(data) == 0 {
			data = json.RawMessage("{}")
		}
		own := Operator{namespace: o.namespace, rooms: []string{one.GetSocket()}}
		members = append(members, Member{own, one.GetSocket(), one.GetRooms(), data})
	}
	return members, nil
}

// Join puts the sockets into rooms.
func (o Operator) Join(ctx context.Context, rooms ...string) error {
	of, err := o.target()
	if err != nil {
		return fmt.Errorf("cannot join: %w", err)
	}
	join := &pb.Membership{Of: of, Rooms: rooms}
	return o.send(ctx, &pb.Command{What: &pb.Command_Join{Join: join}})
}

// Leave takes them out.
func (o Operator) Leave(ctx context.Context, rooms ...string) error {
	of, err := o.target()
	if err != nil {
		return fmt.Errorf("cannot leave: %w", err)
	}
	leave := &pb.Membership{Of: of, Rooms: rooms}
	return o.send(ctx, &pb.Command{What: &pb.Command_Leave{Leave: leave}})
}

// Disconnect ends the sockets; with close the whole connection of each ends, with all its namespaces.
func (o Operator) Disconnect(ctx context.Context, close bool) error {
	of, err := o.target()
	if err != nil {
		return fmt.Errorf("cannot disconnect: %w", err)
	}
	end := &pb.Disconnect{Of: of, Close: close}
	return o.send(ctx, &pb.Command{What: &pb.Command_Disconnect{Disconnect: end}})
}

// IsTimeout says whether an error of Ask is that some did not answer in time. The gateway says so a little before the deadline of ctx. On a
// busy machine the deadline may come first.
func IsTimeout(err error) bool {
	var timeout *AskTimeout
	return errors.As(err, &timeout) || errors.Is(err, context.DeadlineExceeded)
}
