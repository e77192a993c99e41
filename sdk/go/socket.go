package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sort"
	"sync"

	pb "sockeye.example/worker/internal/workerpb"
)

// Socket is a client in a namespace, while this worker has it. As an Operator it names that client alone.
type Socket struct {
	Operator
	id      string
	link    *link
	connect *pb.Connect

	mu        sync.Mutex
	rooms     map[string]struct{}
	transport string
	data      json.RawMessage
	recovered bool
}

func newSocket(namespace *Namespace, link *link, connect *pb.Connect) *Socket {
	id := connect.GetSocket()
	own := Operator{namespace: namespace, link: link, rooms: []string{id}}
	rooms := map[string]struct{}{id: {}}
	return &Socket{Operator: own, id: id, link: link, connect: connect, rooms: rooms, transport: connect.GetTransport(), data: json.RawMessage("{}")}
}

func (s *Socket) restore(resume *pb.Resume) {
	s.recovered = true
	s.moved(resume.GetRooms(), nil)
	if data := resume.GetData(); data != "" {
		s.data = json.RawMessage(data)
	}
}

// ID is the socket's id, and the name of a room that holds it alone.
func (s *Socket) ID() string { return s.id }

// Namespace is the one that the client joined.
func (s *Socket) Namespace() *Namespace { return s.namespace }

// Auth is what the client gave when it connected: JSON, "{}" without any.
func (s *Socket) Auth() json.RawMessage { return json.RawMessage(s.connect.GetAuth()) }

// BindAuth stores it behind target, as json.Unmarshal does.
func (s *Socket) BindAuth(target any) error {
	if err := json.Unmarshal(s.connect.GetAuth(), target); err != nil {
		return fmt.Errorf("cannot read what %s gave when it connected: %w", s.id, err)
	}
	return nil
}

// Query has the parameters of the request that opened the session.
func (s *Socket) Query() url.Values {
	// Values that cannot be read are left out.
	values, _ := url.ParseQuery(s.connect.GetQuery())
	return values
}

// Header has the header lines of that request.
func (s *Socket) Header() http.Header {
	header := http.Header{}
	for _, line := range s.connect.GetHeaders() {
		header.Add(line.GetName(), string(line.GetValue()))
	}
	return header
}

// Address is the client's.
func (s *Socket) Address() string { return s.connect.GetAddress() }

// User is the user of the client's token; empty = none.
func (s *Socket) User() string { return s.connect.GetUser() }

// Transport is the session's: "polling", "websocket" or "webtransport".
func (s *Socket) Transport() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transport
}

// upgraded: a gateway that does not name the transport knows one.
func (s *Socket) upgraded(transport string) {
	if transport == "" {
		transport = "websocket"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transport = transport
}

// Recovered says that another worker had the socket before.
func (s *Socket) Recovered() bool { return s.recovered }

// Rooms are those that the socket is in, its own among them, in order.
func (s *Socket) Rooms() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	rooms := make([]string, 0, len(s.rooms))
	for room := range s.rooms {
		rooms = append(rooms, room)
	}
	sort.Strings(rooms)
	return rooms
}

func (s *Socket) moved(joined, left []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, room := range joined {
		s.rooms[room] = struct{}{}
	}
	for _, room := range left {
		delete(s.rooms, room)
	}
}

func (s *Socket) setRooms(rooms []string) {
	s.mu.Lock()
	s.rooms = map[string]struct{}{}
	s.mu.Unlock()
	s.moved(rooms, nil)
}

// Join puts the socket into rooms.
func (s *Socket) Join(ctx context.Context, rooms ...string) error {
	if _, is := firstUnfit(nil, rooms...); !is {
		s.moved(rooms, nil)
	}
	return s.Operator.Join(ctx, rooms...)
}

// Leave takes it out.
func (s *Socket) Leave(ctx context.Context, rooms ...string) error {
	s.moved(nil, rooms)
	return s.Operator.Leave(ctx, rooms...)
}

// Others are the others in the namespace; with To(room) those in a room.
func (s *Socket) Others() Operator {
	return Operator{namespace: s.namespace, link: s.link, all: true, except: []string{s.id}}
}

// Ask sends an event to the client, and waits for its answer: until the deadline of ctx, else 10 s.
func (s *Socket) Ask(ctx context.Context, event string, args ...any) (Args, error) {
	answers, err := s.Operator.Ask(ctx, event, args...)
	if err != nil {
		return Args{}, err
	}
	if len(answers) == 0 {
		return Args{}, &AskTimeout{nil, 1}
	}
	return answers[0], nil
}

// Data stores what SetData left behind target, as json.Unmarshal does.
func (s *Socket) Data(target any) error {
	s.mu.Lock()
	data := s.data
	s.mu.Unlock()
	if err := json.Unmarshal(data, target); err != nil {
		return fmt.Errorf("cannot read the data of %s: %w", s.id, err)
	}
	return nil
}

// SetData keeps a value with the socket: it goes with it when it moves to another worker. 16 KiB of JSON at most.
func (s *Socket) SetData(ctx context.Context, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot keep the data of %s: %w", s.id, err)
	}
	s.mu.Lock()
	s.data = data
	s.mu.Unlock()
	set := &pb.SetData{Socket: s.id, Data: string(data)}
	return s.send(ctx, &pb.Command{What: &pb.Command_SetData{SetData: set}})
}
