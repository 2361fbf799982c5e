package importer

import (
	"fmt"
	"testing"
)

func TestIDsAreMadeUnique(t *testing.T) {
	s := idSet{}
	seen := map[string]bool{}
	for i := range 20_000 {
		id := s.unique(fmt.Sprintf("c%d", i%7_000))
		if seen[id] {
			t.Fatalf("identifier %q came twice", id)
		}
		if first := i < 7_000; first != (id == fmt.Sprintf("c%d", i%7_000)) {
			t.Fatalf("identifier %d became %q", i, id)
		}
		seen[id] = true
	}
}
