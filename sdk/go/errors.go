package worker

import (
	"errors"
	"fmt"
)

var (
	// ErrTooMuchWaits says that the gateway does not take commands, and no more can be kept.
	ErrTooMuchWaits = errors.New("too much waits for the gateway")
	// ErrTooLarge says that no message has room for a command.
	ErrTooLarge = errors.New("the command is too large")
	// ErrNotText says that the name of a room or an event, or data that is JSON already, is no UTF-8.
	ErrNotText = errors.New("it is no UTF-8")
	// ErrEnded says that the worker has ended, or does not run yet.
	ErrEnded = errors.New("the worker does not run")
	// ErrNobody says that To was given no rooms.
	ErrNobody = errors.New("nobody is meant: name rooms, or leave out To for the whole namespace")
	// ErrEvery says that a command was for the namespace "*".
	ErrEvery = errors.New("no command is for all namespaces: name one, such as that of a socket")
	// ErrNoAnswer says that the gateway did not answer, or not for all sockets.
	ErrNoAnswer = errors.New("no answer from the gateway")
)

// Refused is returned by a Connect handler: the client gets CONNECT_ERROR with this message and data.
type Refused struct {
	Message string
	// Data becomes JSON; nil = none.
	Data any
}

func (r *Refused) Error() string { return r.Message }

// Refuse makes a Refused.
func Refuse(message string, data any) error { return &Refused{message, data} }

// LinkRefused says that a gateway does not know the key or the backend: trying again would not help.
type LinkRefused struct {
	Gateway string
	Reason  string
}

func (e *LinkRefused) Error() string {
	return fmt.Sprintf("the gateway at %s refuses this worker: %s", e.Gateway, e.Reason)
}

// AskTimeout says that some were asked and did not answer in time.
type AskTimeout struct {
	// Answers has what came.
	Answers []Args
	Missing uint64
}

func (e *AskTimeout) Error() string {
	return fmt.Sprintf("no answer in time from %d of %d", e.Missing, e.Missing+uint64(len(e.Answers)))
}

// Failed says why the gateway did not carry out a command.
type Failed struct{ Reason string }

func (e *Failed) Error() string { return e.Reason }
