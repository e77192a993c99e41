// Answers each event to the socket that sent it, in order for each key, as answer.mjs does: go run . 127.0.0.1:9092
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func header(message kafka.Message, name string) string {
	for _, header := range message.Headers {
		if header.Key == name {
			return string(header.Value)
		}
	}
	return ""
}

// The command that answers an event.
func answer(event kafka.Message) (kafka.Message, error) {
	var said []json.RawMessage
	if err := json.Unmarshal(event.Value, &said); err != nil {
		return kafka.Message{}, err
	}
	value, err := json.Marshal(append([]json.RawMessage{[]byte(`"answer"`)}, said...))
	return kafka.Message{
		Key:   event.Key, // the same order
		Value: value,
		Headers: []kafka.Header{
			{Key: "X-Operator", Value: []byte("unicast")},
			{Key: "X-ID", Value: []byte(header(event, "X-ID"))},
			{Key: "X-Sockeye-Namespace", Value: []byte(header(event, "X-Sockeye-Namespace"))},
		},
	}, err
}

func main() {
	brokers := os.Args[1:]
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: brokers, GroupID: "answers-in-go", Topic: "events", MaxWait: 100 * time.Millisecond,
	})
	writer := kafka.Writer{
		Addr: kafka.TCP(brokers...), Topic: "commands", RequiredAcks: kafka.RequireAll,
		Balancer: kafka.Murmur2Balancer{Consistent: true}, BatchTimeout: 5 * time.Millisecond,
	}
	ctx := context.Background()
	for {
		event, err := reader.FetchMessage(ctx)
		if err != nil {
			log.Fatalf("cannot read events: %v", err)
		}
		if header(event, "X-Event") == "Message" {
			command, err := answer(event)
			if err != nil {
				log.Fatalf("cannot answer %q: %v", event.Value, err)
			}
			if err := writer.WriteMessages(ctx, command); err != nil {
				log.Fatalf("cannot write a command: %v", err)
			}
		}
		// Behind the answer: after a crash an event is answered again, and none is left out.
		if err := reader.CommitMessages(ctx, event); err != nil {
			log.Fatalf("cannot commit: %v", err)
		}
	}
}
