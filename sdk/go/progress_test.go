package worker

import (
	"math/rand"
	"reflect"
	"testing"
)

func TestRowsAboveTheLowestOpenItemAreToldOnce(t *testing.T) {
	p := newProgress()
	var items []*item
	for n := 0; n < 10; n++ {
		items = append(items, p.take(false))
	}
	for _, number := range []int{3, 2, 5, 9} {
		p.done(items[number-1])
	}
	handled, beside := p.next()
	if handled != 0 || !reflect.DeepEqual(beside, []uint64{2, 3, 5, 5, 9, 9}) {
		t.Fatal(handled, beside)
	}
	if handled, beside = p.next(); handled != 0 || beside != nil {
		t.Fatal(handled, beside)
	}
	p.done(items[0])
	p.done(items[0])
	if handled, beside = p.next(); handled != 3 || beside != nil {
		t.Fatal(handled, beside)
	}
	// A link that was lost may have lost rows.
	p.again()
	if handled, beside = p.next(); handled != 3 || !reflect.DeepEqual(beside, []uint64{5, 5, 9, 9}) {
		t.Fatal(handled, beside)
	}
}

func TestEveryItemIsToldAndNoneEarly(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	for round := 0; round < 200; round++ {
		p := newProgress()
		done, told := map[uint64]bool{}, map[uint64]bool{}
		var open []*item
		tell := func() {
			handled, beside := p.next()
			for number := uint64(1); number <= handled; number++ {
				told[number] = true
			}
			for i := 0; i < len(beside); i += 2 {
				for number := beside[i]; number <= beside[i+1]; number++ {
					told[number] = true
				}
			}
			for number := range told {
				if !done[number] {
					t.Fatalf("%d was told early", number)
				}
			}
		}
		for step := 0; step < 100; step++ {
			switch random.Intn(5) {
			case 0, 1:
				open = append(open, p.take(false))
			case 2, 3:
				if len(open) > 0 {
					at := random.Intn(len(open))
					done[open[at].number] = true
					p.done(open[at])
					open = append(open[:at], open[at+1:]...)
				}
			default:
				tell()
				if random.Intn(4) == 0 {
					p.again()
				}
			}
		}
		tell()
		for len(done) != len(told) || p.waits() {
			t.Fatalf("%d of %d were told", len(told), len(done))
		}
	}
}

func TestRowsThatHaveNoRoomComeLater(t *testing.T) {
	p := newProgress()
	var items []*item
	for n := 0; n < 4*rowsMax; n++ {
		items = append(items, p.take(false))
	}
	for n := 1; n < len(items); n += 2 {
		p.done(items[n])
	}
	_, first := p.next()
	if len(first) != 2*rowsMax || !p.waits() {
		t.Fatal(len(first), p.waits())
	}
	_, second := p.next()
	if len(second) != 2*rowsMax || p.waits() || second[0] <= first[len(first)-1] {
		t.Fatal(len(second), p.waits())
	}
}
