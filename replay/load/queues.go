package load

// heap gives items in the order of their moments; those of one moment in the order in which they came.
type heap[T any] struct {
	items []dated[T]
	seq   uint64
}

type dated[T any] struct {
	at  int64
	seq uint64
	v   T
}

func (d *dated[T]) before(o *dated[T]) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

func (h *heap[T]) len() int { return len(h.items) }

// next gives the earliest moment; the heap is not empty.
func (h *heap[T]) next() int64 { return h.items[0].at }

func (h *heap[T]) push(at int64, v T) {
	h.seq++
	d := dated[T]{at, h.seq, v}
	h.items = append(h.items, d)
	i := len(h.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !d.before(&h.items[up]) {
			break
		}
		h.items[i] = h.items[up]
		i = up
	}
	h.items[i] = d
}

func (h *heap[T]) pop() (at int64, v T) {
	q := h.items
	top, n := q[0], len(q)-1
	d := q[n]
	h.items = q[:n]
	i := 0
	for {
		kid := 2*i + 1
		if kid >= n {
			break
		}
		if kid+1 < n && q[kid+1].before(&q[kid]) {
			kid++
		}
		if !q[kid].before(&d) {
			break
		}
		q[i] = q[kid]
		i = kid
	}
	if n > 0 {
		q[i] = d
	}
	return top.at, top.v
}

// queue is a queue.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }
func (q *queue[T]) push(v T) { q.items = append(q.items, v) }

func (q *queue[T]) peek() (v T, ok bool) {
	if q.len() == 0 {
		return v, false
	}
	return q.items[q.head], true
}

func (q *queue[T]) pop() (v T, ok bool) {
	if v, ok = q.peek(); !ok {
		return v, false
	}
	switch q.head++; {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head >= 1024 && q.head > len(q.items)/2:
		q.items, q.head = q.items[:copy(q.items, q.items[q.head:])], 0
	}
	return v, true
}
