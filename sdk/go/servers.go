package worker

import (
	"context"
	"fmt"
	"sync"

	pb "sockeye.example/worker/internal/workerpb"
)

// ServerHandler handles what another server says. What it returns is the answer, if one is wanted.
type ServerHandler func(ctx context.Context, args Args) (any, error)

// Servers are the other servers of a namespace: workers at any node, and Socket.IO servers in the cluster.
type Servers struct {
	namespace *Namespace
	mu        sync.RWMutex
	handlers  map[string]ServerHandler
}

// On registers the handler of an event of other servers. A second one panics.
func (s *Servers) On(event string, handler ServerHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handlers[event] != nil {
		panic(fmt.Sprintf("worker: cannot register a second handler for %q of servers in %s", event, s.namespace.name))
	}
	s.handlers[event] = handler
}

// Emit tells the other servers.
func (s *Servers) Emit(ctx context.Context, event string, args ...any) error {
	tell, err := s.tell(event, args)
	if err != nil {
		return err
	}
	return s.namespace.send(ctx, &pb.Command{What: &pb.Command_Tell{Tell: tell}})
}

// Ask tells them, and waits for an answer of each: until the deadline of ctx, else 10 s. If some are missing, the error is an AskTimeout.
func (s *Servers) Ask(ctx context.Context, event string, args ...any) ([]Args, error) {
	tell, err := s.tell(event, args)
	if err != nil {
		return nil, err
	}
	timeout := timeoutOf(ctx)
	tell.TimeoutMs = millis(timeout)
	worker := s.namespace.worker
	answer, err := worker.ask(ctx, worker.linkFor(ctx), timeout, func(number uint64) *pb.Command {
		tell.Query = number
		return &pb.Command{What: &pb.Command_Tell{Tell: tell}}
	})
	if err != nil {
		return nil, err
	}
	return answersOf(answer)
}

func (s *Servers) tell(event string, args []any) (*pb.Tell, error) {
	encoded, attachments, err := encode(args)
	if err == nil && s.namespace.name == every {
		err = ErrEvery
	}
	if err != nil {
		return nil, fmt.Errorf("cannot tell servers %q: %w", event, err)
	}
	return &pb.Tell{Namespace: s.namespace.name, Event: event, Args: encoded, Attachments: attachments}, nil
}

func (s *Servers) handler(event string) ServerHandler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.handlers[event]
}

// serverHandler is that of the namespace, else that of all.
func (w *Worker) serverHandler(namespace, event string) ServerHandler {
	w.mu.Lock()
	own, all := w.namespaces[namespace], w.namespaces[every]
	w.mu.Unlock()
	for _, n := range []*Namespace{own, all} {
		if n == nil {
			continue
		}
		if handler := n.servers.handler(event); handler != nil {
			return handler
		}
	}
	return nil
}

// told: a server that waits gets an answer, whatever happens.
func (w *Worker) told(ctx context.Context, link *link, told *pb.Told) error {
	handler := w.serverHandler(told.GetNamespace(), told.GetEvent())
	var answer any = unknown
	var failure error
	if handler != nil {
		failure = guarded(func() error {
			args, err := decode(told.GetArgs(), told.GetAttachments())
			if err == nil {
				answer, err = handler(ctx, args)
			}
			return err
		})
		if failure != nil {
			answer = failed
		}
	}
	if told.GetTold() == 0 {
		return failure
	}
	args, attachments, err := encode(valuesOf(answer))
	if err != nil {
		failure = err
		args, attachments, _ = encode([]any{failed})
	}
	reply := &pb.Reply{Told: told.GetTold(), Args: args, Attachments: attachments}
	if _, err := link.command(&pb.Command{What: &pb.Command_Reply{Reply: reply}}, true); err != nil {
		return err
	}
	return failure
}
