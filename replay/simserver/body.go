package simserver

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// bodies are request bodies to use again; those of agents are large.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// readBody reads a whole body of at most limit bytes. A status other than 0 is the refusal.
func readBody(r io.Reader, length, limit int64) (body *[]byte, status int) {
	body = bodies.Get().(*[]byte)
	b := (*body)[:0]
	if length > limit {
		*body = b
		return body, http.StatusRequestEntityTooLarge
	}
	if int64(cap(b)) < length {
		b = make([]byte, 0, length)
	}
	var err error
	for err == nil {
		if len(b) == cap(b) && int64(len(b)) != length {
			b = append(b, 0)[:len(b)]
		}
		if int64(len(b)) > limit {
			status = http.StatusRequestEntityTooLarge
			break
		}
		if int64(len(b)) == length {
			break
		}
		var n int
		n, err = r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
	}
	if err != nil && !errors.Is(err, io.EOF) || length > int64(len(b)) && status == 0 {
		status = http.StatusBadRequest
	}
	*body = b
	return body, status
}

func putBody(body *[]byte) {
	if cap(*body) <= 1<<20 {
		bodies.Put(body)
	}
}
