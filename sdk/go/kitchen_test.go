package worker

// The worker that the tests start and kill: this test binary with KITCHEN in its environment.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if gateways := os.Getenv("KITCHEN"); gateways != "" {
		if err := cook(strings.Split(gateways, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func cook(gateways []string) error {
	secure, err := certificates(os.Getenv("KITCHEN_FILES"))
	if err != nil {
		return err
	}
	w, err := New(Options{Key: os.Getenv("KITCHEN_KEY"), Backend: "kitchen", TLS: secure}, gateways...)
	if err != nil {
		return err
	}
	kitchen(w)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		<-w.Ready()
		for w.Attached() < len(gateways) {
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Println("ready")
	}()
	return w.Run(ctx)
}

// certificates are those of the folder, if there are any.
func certificates(folder string) (*tls.Config, error) {
	authority, err := os.ReadFile(filepath.Join(folder, "trusted.pem"))
	if err != nil {
		return nil, nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	secure := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	own, err := tls.LoadX509KeyPair(filepath.Join(folder, "worker.pem"), filepath.Join(folder, "worker.key"))
	if err == nil {
		secure.Certificates = []tls.Certificate{own}
	}
	return secure, nil
}

type chef struct {
	Since string `json:"since,omitempty"`
	Last  int    `json:"last"`
}

func kitchen(w *Worker) {
	w.Connect(func(_ context.Context, socket *Socket) error {
		if strings.Contains(string(socket.Auth()), `"bad":true`) {
			return Refuse("not you", map[string]any{"code": 7})
		}
		return nil
	})
	w.Connected(func(ctx context.Context, socket *Socket) error {
		if socket.Recovered() {
			return nil
		}
		return first(
			socket.SetData(ctx, chef{Since: "start"}),
			socket.Join(ctx, "kitchen"),
			socket.Emit(ctx, "hello", socket.ID()),
		)
	})
	w.Disconnected(func(ctx context.Context, socket *Socket, reason string) error {
		var rooms []any
		for _, room := range socket.Rooms() {
			if room != socket.ID() {
				rooms = append(rooms, room)
			}
		}
		return w.To("kitchen").Emit(ctx, "left", reason, rooms)
	})
	talk(w)
	act(w)
	servers(w)
	w.Of("/game").On("where", func(_ context.Context, socket *Socket, _ Args) (any, error) {
		return Values{socket.Namespace().Name(), socket.Query().Get("room"), socket.Header().Get("X-Table"), socket.Transport()}, nil
	})
	w.NodeGone(func(ctx context.Context, node uint32, life uint64) error {
		return w.To("kitchen").Emit(ctx, "gone", node, life)
	})
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func talk(w *Worker) {
	w.On("echo", func(_ context.Context, _ *Socket, args Args) (any, error) {
		return args.Values()
	})
	w.On("count", func(ctx context.Context, socket *Socket, args Args) (any, error) {
		var n int
		if err := args.Bind(&n); err != nil {
			return nil, err
		}
		// Some are slow: others must not overtake them for this socket, and must for other sockets.
		if n%50 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		var data chef
		if err := socket.Data(&data); err != nil {
			return nil, err
		}
		data.Last = n
		return Values{n, Redelivered(ctx)}, socket.SetData(ctx, data)
	})
	w.On("news", func(ctx context.Context, socket *Socket, args Args) (any, error) {
		values, err := args.Values()
		if err != nil {
			return nil, err
		}
		return nil, socket.Others().To("kitchen").Emit(ctx, "news", values...)
	})
	w.On("note", func(ctx context.Context, _ *Socket, args Args) (any, error) {
		var n int
		if err := args.Bind(&n); err != nil {
			return nil, err
		}
		return nil, w.To("kitchen").Emit(ctx, "note", n, Redelivered(ctx))
	})
	w.On("survey", func(ctx context.Context, _ *Socket, _ Args) (any, error) {
		answers, err := w.To("kitchen").Ask(ctx, "question")
		ids := []any{}
		for _, answer := range answers {
			var id string
			if err := answer.Bind(&id); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, err
	})
	w.On("silence", func(ctx context.Context, socket *Socket, _ Args) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
		defer cancel()
		_, err := socket.Ask(ctx, "silence")
		return IsTimeout(err), nil
	})
	w.On("who", func(ctx context.Context, _ *Socket, _ Args) (any, error) {
		members, err := w.To("kitchen").Fetch(ctx)
		found := []any{}
		for _, member := range members {
			found = append(found, map[string]any{"id": member.ID, "rooms": len(member.Rooms), "data": member.Data})
		}
		return found, err
	})
	w.On("trace", func(ctx context.Context, _ *Socket, _ Args) (any, error) {
		return Traceparent(ctx), nil
	})
}

func act(w *Worker) {
	w.On("move", func(ctx context.Context, socket *Socket, args Args) (any, error) {
		var old, new string
		if err := args.Bind(&old, &new); err != nil {
			return nil, err
		}
		return true, first(
			socket.Leave(ctx, old),
			socket.Join(ctx, new),
			w.To(new).But("kitchen").Emit(ctx, "moved", new),
		)
	})
	w.On("fail", func(context.Context, *Socket, Args) (any, error) {
		return nil, errors.New("what a handler returns does not end the worker")
	})
	w.On("panic", func(context.Context, *Socket, Args) (any, error) {
		var nobody *Socket
		return nobody.id, nil
	})
	w.On("wrong", func(ctx context.Context, _ *Socket, _ Args) (any, error) {
		_, err := w.Ask(ctx, "")
		return fmt.Sprint(err), nil
	})
	w.On("leave me", func(ctx context.Context, socket *Socket, _ Args) (any, error) {
		return nil, socket.Disconnect(ctx, false)
	})
	w.On("never", func(ctx context.Context, _ *Socket, args Args) (any, error) {
		var n int
		if err := first(args.Bind(&n), w.To("kitchen").Emit(ctx, "note", n, Redelivered(ctx))); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, nil
	})
	w.On("deadly", func(context.Context, *Socket, Args) (any, error) {
		os.Exit(9)
		return nil, nil
	})
}

func servers(w *Worker) {
	w.On("consult", func(ctx context.Context, _ *Socket, args Args) (any, error) {
		values, err := args.Values()
		if err != nil {
			return nil, err
		}
		answers, err := w.Servers().Ask(ctx, values[0].(string), values[1:]...)
		found := []any{}
		for _, answer := range answers {
			var value any
			if err := answer.Bind(&value); err != nil {
				return nil, err
			}
			found = append(found, value)
		}
		return found, err
	})
	w.On("announce", func(ctx context.Context, _ *Socket, args Args) (any, error) {
		values, err := args.Values()
		if err != nil {
			return nil, err
		}
		return nil, w.Servers().Emit(ctx, "announce", values...)
	})
	w.Servers().On("announce", func(ctx context.Context, args Args) (any, error) {
		values, err := args.Values()
		if err != nil {
			return nil, err
		}
		return nil, w.To("kitchen").Emit(ctx, "news", values...)
	})
	w.Servers().On("double", func(_ context.Context, args Args) (any, error) {
		var value []byte
		err := args.Bind(&value)
		return append(value, value...), err
	})
	w.Servers().On("break", func(context.Context, Args) (any, error) {
		return nil, errors.New("a server that asks gets an answer")
	})
}
