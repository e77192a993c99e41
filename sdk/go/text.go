package worker

import (
	"unicode/utf8"

	pb "sockeye.example/worker/internal/workerpb"
)

// unfit finds a text of a command that is no UTF-8. Protobuf writes none: the link would end over it, again and again.
func unfit(command *pb.Command) (string, bool) {
	switch what := command.GetWhat().(type) {
	case *pb.Command_Emit:
		return firstUnfit(what.Emit.GetTo(), what.Emit.GetEvent())
	case *pb.Command_Ask:
		emit := what.Ask.GetEmit()
		return firstUnfit(emit.GetTo(), emit.GetEvent())
	case *pb.Command_Join:
		return firstUnfit(what.Join.GetOf(), what.Join.GetRooms()...)
	case *pb.Command_Leave:
		return firstUnfit(what.Leave.GetOf(), what.Leave.GetRooms()...)
	case *pb.Command_Fetch:
		return firstUnfit(what.Fetch.GetOf())
	case *pb.Command_Disconnect:
		return firstUnfit(what.Disconnect.GetOf())
	case *pb.Command_SetData:
		return firstUnfit(nil, what.SetData.GetData())
	case *pb.Command_Decision:
		return firstUnfit(nil, what.Decision.GetMessage(), what.Decision.GetData())
	case *pb.Command_Tell:
		return firstUnfit(nil, what.Tell.GetNamespace(), what.Tell.GetEvent())
	}
	return "", false
}

func firstUnfit(of *pb.Target, texts ...string) (string, bool) {
	own := []string{of.GetNamespace()}
	for _, list := range [...][]string{own, of.GetRooms(), of.GetExcept(), texts} {
		for _, text := range list {
			if !utf8.ValidString(text) {
				return text, true
			}
		}
	}
	return "", false
}
