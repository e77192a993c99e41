package worker

import "sort"

// The gateway takes so many rows in one message.
const rowsMax = 8_192

// item is one that came from the gateway.
type item struct {
	progress *progress
	number   uint64
	// The gateway is to know that it begins.
	alone bool
}

// progress knows which items are handled. Handlers end in any order; the gateway is told a number up to which all have, and
// rows above it.
type progress struct {
	received uint64
	// All up to this number are handled.
	handled uint64
	open    map[uint64]struct{}
	// Rows that the gateway was not told of: each a first and a last number.
	rows [][2]uint64
}

func newProgress() *progress {
	return &progress{open: map[uint64]struct{}{}}
}

// take notes that one more item came.
func (p *progress) take(alone bool) *item {
	p.received++
	p.open[p.received] = struct{}{}
	return &item{p, p.received, alone}
}

// done notes that it is handled. What was said to be handled stays so.
func (p *progress) done(it *item) {
	if _, open := p.open[it.number]; !open {
		return
	}
	delete(p.open, it.number)
	p.rows = append(p.rows, [2]uint64{it.number, it.number})
	for p.handled < p.received {
		if _, open := p.open[p.handled+1]; open {
			break
		}
		p.handled++
	}
}

// next is what the gateway is to be told: the number up to which all are handled, and rows above it.
func (p *progress) next() (uint64, []uint64) {
	rows := p.rows[:0]
	for _, row := range p.rows {
		if row[1] > p.handled {
			rows = append(rows, row)
		}
	}
	sort.Slice(rows, func(a, b int) bool { return rows[a][0] < rows[b][0] })
	var merged [][2]uint64
	for _, row := range rows {
		if last := len(merged) - 1; last >= 0 && merged[last][1]+1 >= row[0] {
			if row[1] > merged[last][1] {
				merged[last][1] = row[1]
			}
			continue
		}
		merged = append(merged, row)
	}
	told := merged
	if len(told) > rowsMax {
		told = merged[:rowsMax]
	}
	p.rows = append([][2]uint64(nil), merged[len(told):]...)
	var numbers []uint64
	for _, row := range told {
		numbers = append(numbers, row[0], row[1])
	}
	return p.handled, numbers
}

// waits says that there are rows that had no room in the last message.
func (p *progress) waits() bool { return len(p.rows) > 0 }

// again: the link was lost, and rows with it. All are said again.
func (p *progress) again() {
	p.rows = nil
	first := uint64(0)
	for number := p.handled + 1; number <= p.received+1; number++ {
		_, open := p.open[number]
		isDone := number <= p.received && !open
		switch {
		case isDone && first == 0:
			first = number
		case !isDone && first > 0:
			p.rows = append(p.rows, [2]uint64{first, number - 1})
			first = 0
		}
	}
}
