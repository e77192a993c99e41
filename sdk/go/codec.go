package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Values is a handler's result that is several values, or what a client sent.
type Values []any

// Args are the arguments of an event, or an answer: JSON, and bytes that stand in it.
type Args struct {
	elements    []json.RawMessage
	attachments [][]byte
}

// Deeper values are refused: most of them refer to themselves.
const depthMax = 1_000

var errTooDeep = errors.New("the value is nested too deeply")

// A binary value in JSON, as Socket.IO writes it.
type placeholder struct {
	Is  bool   `json:"_placeholder"`
	Num uint64 `json:"num"`
}

// encode gives raw JSON elements separated by commas, and the attachments that placeholders in them stand for.
func encode(values []any) ([]byte, [][]byte, error) {
	var out bytes.Buffer
	var attachments [][]byte
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for i, value := range values {
		if i > 0 {
			out.WriteByte(',')
		}
		taken, err := take(value, &attachments, 0)
		if err == nil {
			err = encoder.Encode(taken)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot encode argument %d: %w", i+1, err)
		}
		// The encoder ends each value with a line.
		out.Truncate(out.Len() - 1)
	}
	return out.Bytes(), attachments, nil
}

// take puts placeholders where bytes are.
func take(value any, attachments *[][]byte, depth int) (any, error) {
	if depth > depthMax {
		return nil, errTooDeep
	}
	switch value := value.(type) {
	case []byte:
		*attachments = append(*attachments, value)
		return placeholder{true, uint64(len(*attachments) - 1)}, nil
	case Values:
		return takeList([]any(value), attachments, depth)
	case []any:
		return takeList(value, attachments, depth)
	case [][]byte:
		list := make([]any, len(value))
		for i, member := range value {
			list[i] = member
		}
		return takeList(list, attachments, depth)
	case map[string]any:
		taken := make(map[string]any, len(value))
		for name, member := range value {
			var err error
			if taken[name], err = take(member, attachments, depth+1); err != nil {
				return nil, err
			}
		}
		return taken, nil
	}
	return value, nil
}

func takeList(list []any, attachments *[][]byte, depth int) (any, error) {
	taken := make([]any, len(list))
	for i, member := range list {
		var err error
		if taken[i], err = take(member, attachments, depth+1); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// decode is the reverse of encode.
func decode(args []byte, attachments [][]byte) (Args, error) {
	list := make([]byte, 0, len(args)+2)
	list = append(append(append(list, '['), args...), ']')
	var elements []json.RawMessage
	if err := json.Unmarshal(list, &elements); err != nil {
		return Args{}, fmt.Errorf("cannot read the arguments: %w", err)
	}
	return Args{elements, attachments}, nil
}

// Len is the number of arguments.
func (a Args) Len() int { return len(a.elements) }

// Values gives all arguments as encoding/json does; binary values are []byte.
func (a Args) Values() (Values, error) {
	values := make(Values, len(a.elements))
	for i := range a.elements {
		if err := a.bind(i, &values[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// Bind stores the arguments behind the pointers, in their order, as json.Unmarshal does. Binary values go into []byte, also within
// structs. Pointers without an argument are left as they are, and so are arguments without a pointer.
func (a Args) Bind(targets ...any) error {
	for i, target := range targets {
		if i >= len(a.elements) {
			break
		}
		if err := a.bind(i, target); err != nil {
			return err
		}
	}
	return nil
}

func (a Args) bind(i int, target any) error {
	raw := a.elements[i]
	if len(a.attachments) == 0 {
		return bindError(i, json.Unmarshal(raw, target))
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return bindError(i, err)
	}
	value = a.give(value)
	switch target := target.(type) {
	case *any:
		*target = value
		return nil
	case *[]byte:
		if bytes, ok := value.([]byte); ok {
			*target = bytes
			return nil
		}
	}
	// As JSON of Go: bytes are base64 there, and json.Unmarshal reads them back.
	raw, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(raw, target)
	}
	return bindError(i, err)
}

func bindError(i int, err error) error {
	if err != nil {
		return fmt.Errorf("cannot use argument %d: %w", i+1, err)
	}
	return nil
}

// give puts bytes where placeholders are.
func (a Args) give(value any) any {
	switch value := value.(type) {
	case []any:
		for i, member := range value {
			value[i] = a.give(member)
		}
	case map[string]any:
		if num, ok := value["num"].(float64); ok && value["_placeholder"] == true {
			if at := int(num); at >= 0 && at < len(a.attachments) && float64(at) == num {
				return a.attachments[at]
			}
		}
		for name, member := range value {
			value[name] = a.give(member)
		}
	}
	return value
}

// valuesOf is what a handler returns: nothing, one value, or Values.
func valuesOf(result any) []any {
	switch result := result.(type) {
	case nil:
		return nil
	case Values:
		return result
	case Args:
		values, err := result.Values()
		if err == nil {
			return values
		}
	}
	return []any{result}
}
