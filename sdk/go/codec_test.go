package worker

import (
	"math"
	"reflect"
	"testing"
)

func TestValuesComeBackAsTheyWere(t *testing.T) {
	values := []any{
		"text <&>", float64(1), nil, true, []byte{1, 2}, []byte{},
		[]any{[]byte{3}, map[string]any{"deep": []byte{4}, "num": float64(0)}},
		map[string]any{"_placeholder": "no", "num": float64(1)},
	}
	args, attachments, err := encode(values)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decode(args, attachments)
	if err != nil || decoded.Len() != len(values) {
		t.Fatal(decoded.Len(), err)
	}
	got, err := decoded.Values()
	if err != nil || !reflect.DeepEqual([]any(got), values) {
		t.Fatalf("%v, %v", got, err)
	}
	if len(attachments) != 4 {
		t.Fatalf("%d attachments", len(attachments))
	}
}

func TestArgumentsAreBoundToTypes(t *testing.T) {
	args, attachments, err := encode([]any{map[string]any{"name": "a", "file": []byte{7}}, []byte{8}, 5, "unbound"})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decode(args, attachments)
	if err != nil {
		t.Fatal(err)
	}
	var order struct {
		Name string
		File []byte
	}
	var file []byte
	var number, missing int
	if err := decoded.Bind(&order, &file, &number); err != nil {
		t.Fatal(err)
	}
	if order.Name != "a" || order.File[0] != 7 || file[0] != 8 || number != 5 {
		t.Fatal(order, file, number)
	}
	missing = 9
	if err := decoded.Bind(&order, &file, &number, new(string), &missing); err != nil || missing != 9 {
		t.Fatal(missing, err)
	}
	if err := decoded.Bind(&number); err == nil {
		t.Fatal("an object became a number")
	}
}

func TestWhatIsNoJSONIsAnError(t *testing.T) {
	round := map[string]any{}
	round["round"] = round
	for _, value := range []any{math.NaN(), round, make(chan int)} {
		if _, _, err := encode([]any{value}); err == nil {
			t.Errorf("%T was encoded", value)
		}
	}
	for _, args := range []string{"{", "1,", "nul", "\x00"} {
		if _, err := decode([]byte(args), nil); err == nil {
			t.Errorf("%q was decoded", args)
		}
	}
	// A number that no attachment has stays what it is.
	decoded, err := decode([]byte(`{"_placeholder":true,"num":7}`), [][]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	values, err := decoded.Values()
	if err != nil || values[0].(map[string]any)["num"] != float64(7) {
		t.Fatal(values, err)
	}
}
