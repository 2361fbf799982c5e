package simserver

import (
	"net/http"
	"strconv"
)

// errorKind is what went wrong, in the words that servers use for it.
func errorKind(status int, claude bool) string {
	if claude {
		switch status {
		case http.StatusTooManyRequests:
			return "rate_limit_error"
		case http.StatusNotFound:
			return "not_found_error"
		case http.StatusRequestEntityTooLarge:
			return "request_too_large"
		case 529, http.StatusServiceUnavailable:
			return "overloaded_error"
		case http.StatusBadRequest, http.StatusUnprocessableEntity:
			return "invalid_request_error"
		}
		return "api_error"
	}
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_exceeded"
	case status == http.StatusServiceUnavailable || status == 529:
		return "overloaded"
	case status == http.StatusNotFound:
		return "NotFoundError"
	case status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}

// appendError appends an error in the given style; member is the request's part that it is about.
func appendError(b []byte, style errorStyle, status int, message, member string) []byte {
	kind := errorKind(status, style == errClaude)
	msg := func(b []byte) []byte { return appendJSONString(append(b, `"message":`...), message) }
	param := func(b []byte) []byte {
		b = append(b, `,"param":`...)
		if member == "" {
			return append(b, "null"...)
		}
		return appendJSONString(b, member)
	}
	switch style {
	case errNumber:
		b = msg(append(b, `{"error":{`...))
		b = append(b, `,"type":"`+kind+`"`...)
		b = append(param(b), `,"code":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		return append(b, `}}`...)
	case errMistral:
		if status == http.StatusUnprocessableEntity {
			b = append(b, `{"detail":[{"type":"extra_forbidden","loc":["body",`...)
			b = appendJSONString(b, member)
			b = append(b, `],"msg":`...)
			return append(appendJSONString(b, message), `,"input":true}]}`...)
		}
		fallthrough
	case errObject:
		b = msg(append(b, `{"object":"error",`...))
		b = append(b, `,"type":"`+kind+`"`...)
		b = append(param(b), `,"code":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		return append(b, '}')
	case errText:
		return append(appendJSONString(append(b, `{"error":`...), message), '}')
	case errTextType:
		if status < 500 && status != http.StatusTooManyRequests {
			kind = "validation"
		} else if status == http.StatusTooManyRequests {
			kind = "overloaded"
		} else {
			kind = "generation"
		}
		return append(appendJSONString(append(b, `{"error":`...), message), `,"error_type":"`+kind+`"}`...)
	case errAzure:
		b = append(b, `{"error":{"code":"`...)
		b = strconv.AppendInt(b, int64(status), 10)
		b = msg(append(b, `",`...))
		return append(b, `}}`...)
	case errFlat:
		b = msg(append(b, '{'))
		b = append(b, `,"type":"`+kind+`","code":`...)
		b = strconv.AppendInt(b, int64(status), 10)
		return append(b, '}')
	case errClaude:
		b = append(b, `{"type":"error","error":{"type":"`+kind+`",`...)
		return append(msg(b), `}}`...)
	}
	b = msg(append(b, `{"error":{`...))
	b = append(b, `,"type":"`+kind+`"`...)
	return append(param(b), `,"code":"`+kind+`"}}`...)
}
