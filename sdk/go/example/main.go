// A small chat: rooms, names, and a word from a server that is asked for the time. It runs with what `sockeye init --worker` writes.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sockeye.example/worker"
)

// guest is what the gateway keeps with a socket.
type guest struct {
	Name string `json:"name"`
}

func main() {
	gateway := os.Getenv("SOCKEYE_GATEWAY")
	if gateway == "" {
		gateway = "127.0.0.1:9091"
	}
	w, err := worker.New(worker.Options{Key: os.Getenv("SOCKEYE_KEY"), Backend: "app"}, strings.Split(gateway, ",")...)
	if err != nil {
		log.Fatal(err)
	}
	w.Connect(decide)
	w.Connected(greet)
	w.Disconnected(func(ctx context.Context, socket *worker.Socket, reason string) error {
		var who guest
		if err := socket.Data(&who); err != nil {
			return err
		}
		return w.To("lobby").Emit(ctx, "left", who.Name, reason)
	})
	w.On("say", say)
	w.On("time", func(context.Context, *worker.Socket, worker.Args) (any, error) {
		return time.Now().UTC().Format(time.RFC3339), nil
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		<-w.Ready()
		log.Printf("attached to %s", gateway)
	}()
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// decide lets in who has a name: io(url, { auth: { name: "ada" } }).
func decide(ctx context.Context, socket *worker.Socket) error {
	var who guest
	if err := socket.BindAuth(&who); err != nil || who.Name == "" || len(who.Name) > 40 {
		return worker.Refuse("a name is needed", nil)
	}
	return nil
}

func greet(ctx context.Context, socket *worker.Socket) error {
	if socket.Recovered() {
		return nil
	}
	var who guest
	if err := socket.BindAuth(&who); err != nil {
		return err
	}
	if err := socket.SetData(ctx, who); err != nil {
		return err
	}
	if err := socket.Join(ctx, "lobby"); err != nil {
		return err
	}
	return socket.Others().To("lobby").Emit(ctx, "joined", who.Name)
}

func say(ctx context.Context, socket *worker.Socket, args worker.Args) (any, error) {
	var text string
	if err := args.Bind(&text); err != nil || text == "" || len(text) > 1_000 {
		return map[string]any{"error": "a text of at most 1,000 bytes is needed"}, nil
	}
	var who guest
	if err := socket.Data(&who); err != nil {
		return nil, err
	}
	if who.Name == "" {
		return nil, errors.New("a socket without a name")
	}
	return "said", socket.Others().To("lobby").Emit(ctx, "said", who.Name, text)
}
