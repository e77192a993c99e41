package worker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// The link ended over it, and the worker came back with the same command, for ever.
func TestATextThatIsNoUTF8EndedTheLink(t *testing.T) {
	worker, stop := away(t)
	defer stop()
	ctx, bad := context.Background(), "a\xff"
	_, asked := worker.Ask(ctx, bad)
	_, fetched := worker.To(bad).Fetch(ctx)
	_, told := worker.Servers().Ask(ctx, bad)
	for act, err := range map[string]error{
		"emit": worker.Emit(ctx, bad), "room": worker.To("good", bad).Emit(ctx, "news"), "except": worker.But(bad).Emit(ctx, "news"),
		"namespace": worker.Of("/"+bad).Emit(ctx, "news"), "ask": asked, "fetch": fetched, "join": worker.Join(ctx, bad),
		"leave": worker.Leave(ctx, bad), "disconnect": worker.To(bad).Disconnect(ctx, false), "tell": worker.Servers().Emit(ctx, bad), "told": told,
	} {
		if !errors.Is(err, ErrNotText) || !strings.Contains(err.Error(), `a\xff"`) {
			t.Errorf("%s: %v", act, err)
		}
	}
	// JSON of Go has U+FFFD there, and attachments have any bytes.
	if err := worker.Emit(ctx, "news", bad, []byte(bad)); err != nil {
		t.Error(err)
	}
	worker.links[0].mu.Lock()
	defer worker.links[0].mu.Unlock()
	for _, one := range worker.links[0].kept {
		if _, err := proto.Marshal(one.command); err != nil {
			t.Error(err)
		}
	}
	if kept := len(worker.links[0].kept); kept != 1 {
		t.Errorf("%d are kept", kept)
	}
}
