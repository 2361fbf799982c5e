package tokenizer

import "unsafe"

// Cuts gives the places at which the tokenizer cuts a text into the pieces that become tokens each by itself: the
// ends of those pieces that stand in the text as they are. There are few or none where it changes the text
// beforehand, or does not cut it.
func (t *Tokenizer) Cuts(text string) []int {
	var ends []int
	base := uintptr(unsafe.Pointer(unsafe.StringData(text)))
	t.pieces(text, func(int) {}, func(piece string) {
		at := int64(uintptr(unsafe.Pointer(unsafe.StringData(piece))) - base)
		if end := at + int64(len(piece)); at >= 0 && end <= int64(len(text)) {
			ends = append(ends, int(end))
		}
	})
	return ends
}
