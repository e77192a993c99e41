package worker

// Namespaces that clients name: those of the program, and others.

import (
	"context"
	"errors"
	"strings"
	"testing"
)

var everyName = setting{more: "[namespaces.\"*\"]\nbackend = \"kitchen\"\n"}

func decide(_ context.Context, socket *Socket) error {
	if !strings.Contains(string(socket.Auth()), "token") {
		return Refuse("who are you?", nil)
	}
	return nil
}

func where(_ context.Context, socket *Socket, _ Args) (any, error) {
	return socket.Namespace().Name(), nil
}

// strict lets nobody into "/" without a token, and has a namespace without a handler.
func strict(w *Worker) {
	w.Connect(decide)
	w.Of("/feed")
}

func catching(w *Worker) {
	strict(w)
	all := w.Of("*")
	all.Connect(decide)
	all.On("where", where)
	all.Servers().On("double", func(_ context.Context, args Args) (any, error) {
		var value int
		err := args.Bind(&value)
		return 2 * value, err
	})
	w.Of("/own").On("where", func(context.Context, *Socket, Args) (any, error) { return "own", nil })
}

func (s *stage) refused(namespace, why string) {
	s.t.Helper()
	_, refused := s.visit(map[string]any{"url": s.url + namespace})
	if refused == nil {
		s.t.Fatalf("%s let a stranger in", namespace)
	}
	is(s.t, refused.Refused.Message, why)
}

func (s *stage) in(namespace string) *guest {
	s.t.Helper()
	one, refused := s.visit(map[string]any{"url": s.url + namespace, "auth": map[string]any{"token": 1}})
	if refused != nil {
		s.t.Fatalf("%s: %+v", namespace, refused.Refused)
	}
	return one
}

func TestStrangersWereInNamespacesThatTheProgramDoesNotHave(t *testing.T) {
	s := newStage(t, everyName)
	w, _ := s.own(Options{}, strict)
	ctx := context.Background()
	s.refused("/", "who are you?")
	s.refused("/any", "Invalid namespace")
	// What is for a name does not open it.
	s.must(w.Of("/any").Emit(ctx, "news", "for nobody"))
	s.refused("/any", "Invalid namespace")
	feed := s.in("/feed")
	s.must(w.Of("/feed").Emit(ctx, "news", "for all"))
	feed.hears("news", "for all")
	// A handler does, whenever it comes.
	w.Of("/any").On("where", where)
	is(t, s.in("/any").call("where"), `["/any"]`)
}

func TestAProgramMayHaveEveryNamespace(t *testing.T) {
	s := newStage(t, everyName)
	w, _ := s.own(Options{}, catching)
	ctx := context.Background()
	for _, name := range []string{"/any", "/feed"} {
		s.refused(name, "who are you?")
		s.must(w.Of(name).Emit(ctx, "news", "for members"))
		s.refused(name, "who are you?")
		is(t, s.in(name).call("where"), `["`+name+`"]`)
	}
	is(t, s.in("/own").call("where"), `["own"]`)
	all := w.Of("*")
	_, asked := all.Servers().Ask(ctx, "double", 2)
	for _, err := range []error{all.Emit(ctx, "news"), all.To("room").Emit(ctx, "news"), all.Servers().Emit(ctx, "news"), asked} {
		if !errors.Is(err, ErrEvery) {
			t.Errorf("got %v", err)
		}
	}
}

func TestServersOfEveryNamespaceAreAnswered(t *testing.T) {
	s := newStage(t, everyName)
	s.own(Options{}, catching)
	other, _ := s.own(Options{}, func(*Worker) {})
	for _, name := range []string{"/any", "/own"} {
		answers, err := other.Of(name).Servers().Ask(context.Background(), "double", 2)
		s.must(err)
		var got int
		s.must(answers[0].Bind(&got))
		is(t, text([]int{len(answers), got}), "[1,4]")
	}
}

func TestASocketWhoseNamespaceTheNextWorkerDoesNotHaveIsSentAway(t *testing.T) {
	s := newStage(t, everyName)
	_, stop := s.own(Options{}, func(w *Worker) { w.Of("/past") })
	guest := s.in("/past")
	s.own(Options{}, strict)
	s.must(stop())
	is(t, guest.next().Lost, "io server disconnect")
}
