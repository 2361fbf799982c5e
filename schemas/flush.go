package schemas

import "fmt"

// Flush ends the row group, so that a writer of long rows can bound what is held in memory. Call it
// seldom: every row group costs space in the footer.
func (w *Writer[T]) Flush() error {
	if w.err != nil {
		return w.err
	}
	if err := w.out.Flush(); err != nil {
		w.err = fmt.Errorf("write %s: %w", w.partial, err)
	}
	return w.err
}
