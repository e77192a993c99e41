package worker

import (
	"context"
	"errors"
	"testing"
)

func TestAnEmptyListOfRoomsWasEverybody(t *testing.T) {
	n := newNamespace(nil, "/")
	socket := Operator{namespace: n, rooms: []string{"s"}}
	ctx, none := context.Background(), []string{}
	for _, operator := range []Operator{n.To(none...), n.To(none...).But("a")} {
		_, asked := operator.Ask(ctx, "x")
		_, fetched := operator.Fetch(ctx)
		for act, err := range map[string]error{
			"emit": operator.Emit(ctx, "x"), "ask": asked, "fetch": fetched, "join": operator.Join(ctx, "a"),
			"leave": operator.Leave(ctx, "a"), "disconnect": operator.Disconnect(ctx, true),
		} {
			if !errors.Is(err, ErrNobody) {
				t.Error(act, err)
			}
		}
	}
	for operator, all := range map[*Operator]bool{&n.Operator: true, &socket: false} {
		target, err := operator.But("a").target()
		if err != nil || target.GetAll() != all {
			t.Error(target, err)
		}
	}
}
