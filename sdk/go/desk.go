package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	pb "sockeye.example/worker/internal/workerpb"
)

var (
	unknown = map[string]any{"error": "No handler knows this event"}
	failed  = map[string]any{"error": "The handler failed"}
)

// work is one item on a desk; it is nil for what the gateway does not count.
type work struct {
	what        any
	redelivered bool
	it          *item
}

// desk handles what concerns one socket, one after the other; the desks of other sockets go on meanwhile.
type desk struct {
	worker *Worker
	socket *Socket

	mu      sync.Mutex
	waits   []work
	runs    bool
	isAway  bool
	context context.Context
	cancel  context.CancelFunc
}

func newDesk(worker *Worker, socket *Socket) *desk {
	ctx, cancel := context.WithCancel(worker.context)
	ctx = context.WithValue(ctx, linkKey{}, socket.link)
	return &desk{worker: worker, socket: socket, context: ctx, cancel: cancel}
}

func (d *desk) put(one work) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = append(d.waits, one)
	if !d.runs {
		d.runs = true
		go d.run()
	}
}

// lose: what waits is another worker's now.
func (d *desk) lose() {
	d.mu.Lock()
	d.waits = nil
	d.mu.Unlock()
	d.put(work{what: &pb.Gone{Reason: "worker replaced", Rooms: d.socket.Rooms()}})
}

// run ends when nothing waits any more: a socket that says nothing has no goroutine.
func (d *desk) run() {
	for {
		d.mu.Lock()
		if len(d.waits) == 0 {
			d.runs, d.waits = false, nil
			d.mu.Unlock()
			return
		}
		one := d.waits[0]
		d.waits[0] = work{}
		d.waits = d.waits[1:]
		d.mu.Unlock()
		d.handle(one)
	}
}

func (d *desk) handle(one work) {
	link := d.socket.link
	if d.isAway {
		// The end of a client that left while it was being refused.
		d.finish(one.it)
		return
	}
	// An item of a worker that was given up meanwhile is another worker's.
	if one.it != nil && !link.begins(one.it) {
		return
	}
	ctx := d.context
	switch what := one.what.(type) {
	case *pb.Connect:
		d.isAway = !d.connect(with(ctx, what.GetTraceparent()))
	case *pb.Resume:
		d.tell("Connected", func() error { return d.socket.namespace.connected(ctx, d.socket) })
	case *pb.Event:
		late := link.watch(one.it, what.GetEvent())
		d.event(with(context.WithValue(ctx, markKey{}, one.redelivered), what.GetTraceparent()), what)
		late.Stop()
	case *pb.Upgraded:
		d.socket.upgraded(what.GetTransport())
	case *pb.Moved:
		d.socket.moved(what.GetJoined(), what.GetLeft())
	case *pb.Gone:
		d.socket.setRooms(what.GetRooms())
		d.tell("Disconnected", func() error { return d.socket.namespace.disconnected(ctx, d.socket, what.GetReason()) })
		d.isAway = true
	case *pb.Part:
		// Another worker has the socket: its handlers there hear of its end.
		d.isAway = true
	}
	if d.isAway {
		d.worker.forget(d)
		d.cancel()
	}
	d.finish(one.it)
}

func (d *desk) finish(it *item) {
	if it != nil {
		d.socket.link.done(it)
	}
}

// connect says whether the socket is in.
func (d *desk) connect(ctx context.Context) bool {
	socket := d.socket
	decision := &pb.Decision{Socket: socket.id}
	err := guarded(func() error { return socket.namespace.connect(ctx, socket) })
	var refused *Refused
	switch {
	case err == nil:
		decision.Admit = true
	case errors.As(err, &refused):
		// As json.Marshal has it: half a character costs nobody the answer.
		decision.Message = strings.ToValidUTF8(refused.Message, "\ufffd")
		if refused.Data != nil {
			data, err := json.Marshal(refused.Data)
			if err != nil {
				d.worker.log.Printf("cannot tell %s the data of its refusal: %v", socket.id, err)
			}
			decision.Data = strings.ToValidUTF8(string(data), "\ufffd")
		}
	default:
		d.worker.log.Printf("cannot decide whether %s comes in: %v", socket.id, err)
		decision.Message = "internal error"
	}
	if err := d.answer(ctx, &pb.Command{What: &pb.Command_Decision{Decision: decision}}); err != nil {
		return false
	}
	if decision.Admit {
		d.tell("Connected", func() error { return socket.namespace.connected(ctx, socket) })
	}
	return decision.Admit
}

func (d *desk) event(ctx context.Context, event *pb.Event) {
	// A client that waits gets an answer, whatever happens.
	var answer any = unknown
	if handler := d.socket.namespace.handler(event.GetEvent()); handler != nil {
		err := guarded(func() error {
			args, err := decode(event.GetArgs(), event.GetAttachments())
			if err == nil {
				answer, err = handler(ctx, d.socket, args)
			}
			return err
		})
		if err != nil {
			d.worker.log.Printf("cannot handle %q of %s: %v", event.GetEvent(), d.socket.id, err)
			answer = failed
		}
	}
	if event.GetAck() == 0 {
		return
	}
	if err := d.ack(ctx, event, answer); err != nil {
		d.worker.log.Printf("cannot answer %q of %s: %v", event.GetEvent(), d.socket.id, err)
		if err := d.ack(ctx, event, failed); err != nil {
			d.worker.log.Printf("cannot answer %s: %v", d.socket.id, err)
		}
	}
}

func (d *desk) ack(ctx context.Context, event *pb.Event, answer any) error {
	args, attachments, err := encode(valuesOf(answer))
	if err != nil {
		return err
	}
	ack := &pb.Ack{Socket: d.socket.id, Ack: event.GetAck(), Args: args, Attachments: attachments}
	return d.answer(ctx, &pb.Command{What: &pb.Command_Ack{Ack: ack}})
}

// answer sends what the gateway waits for.
func (d *desk) answer(ctx context.Context, command *pb.Command) error {
	command.Traceparent = Traceparent(ctx)
	_, err := d.socket.link.command(command, true)
	return err
}

func (d *desk) tell(handler string, call func() error) {
	if err := guarded(call); err != nil {
		d.worker.log.Printf("the handler %s failed for %s: %v", handler, d.socket.id, err)
	}
}

// guarded makes an error of a panic: what one client causes does not end the worker.
func guarded(call func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return call()
}

type (
	markKey  struct{}
	traceKey struct{}
	linkKey  struct{}
)

func with(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// Redelivered says whether another worker, or an earlier run of this one, may have handled the event that is being handled.
func Redelivered(ctx context.Context) bool {
	mark, _ := ctx.Value(markKey{}).(bool)
	return mark
}

// Traceparent is the W3C Trace Context of the event that is being handled, for requests and spans of your own; empty without a trace.
func Traceparent(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}
