package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"parley/replay/internal/api"
)

// maxFetch is the limit in bytes of what Fetch reads.
const maxFetch = 64 << 20

// Fetch makes one small request to the server, apart from the load's connections and not measured: /health,
// /v1/models, /metrics, the control routes. path is absolute on the server's host; a path without a leading
// slash is relative to the base URL's path. The client's headers and key are sent, redirects are not followed.
// The response is read up to 64 MiB. The error is an *api.Failure, without secrets.
func (c *Client) Fetch(ctx context.Context, method, path string, body []byte) (status int, header http.Header, response []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.refreshKey()
	if path == "" || path[0] != '/' {
		path = c.target.basePath + "/" + path
	}
	u := c.fallback.url("/")
	ref, err := url.Parse(path)
	if err != nil {
		return 0, nil, nil, fail(KindBadRow, "the path "+quote([]byte(path))+" cannot be part of a URL")
	}
	u.Path, u.RawPath, u.RawQuery = ref.Path, ref.RawPath, ref.RawQuery
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), reader)
	if err != nil {
		return 0, nil, nil, fail(KindBadRow, "the request "+quote([]byte(method+" "+path))+" cannot be made")
	}
	for _, h := range c.common.Load().headers {
		switch http.CanonicalHeaderKey(h.Name) {
		case "Host":
			r.Host = h.Value
		case "Content-Type":
			if body != nil {
				r.Header.Set(h.Name, h.Value)
			}
		default:
			r.Header.Set(h.Name, h.Value)
		}
	}
	resp, err := c.fallback.transport.RoundTrip(r)
	if err != nil {
		return 0, nil, nil, c.cleanError(c.fallback.failure(ctx, err, &exchange{first: unset}))
	}
	defer resp.Body.Close()
	response, err = io.ReadAll(io.LimitReader(resp.Body, maxFetch+1))
	if err == nil && len(response) > maxFetch {
		err = fail(KindBodyTooLarge, "the response to "+method+" "+path+" is larger than 64 MiB")
	}
	if err != nil {
		return resp.StatusCode, resp.Header, nil, c.cleanError(c.fallback.failure(ctx, err, &exchange{}))
	}
	return resp.StatusCode, resp.Header, response, nil
}

// Clean blots the client's secrets out of a text and makes it fit for a terminal.
func (c *Client) Clean(text string) string { return api.Clean(text, c.common.Load().secrets) }
