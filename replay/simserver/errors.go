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
	var param any
	if member != "" {
		param = member
	}
	switch style {
	case errNumber:
		return object(b, "error", inner("message", message, "type", kind, "param", param, "code", status))
	case errMistral:
		if status == http.StatusUnprocessableEntity {
			where := append(appendJSONString([]byte(`["body",`), member), ']')
			return object(b, "detail", list(inner("type", "extra_forbidden", "loc", raw(where), "msg", message, "input", true)))
		}
		fallthrough
	case errObject:
		return object(b, "object", "error", "message", message, "type", kind, "param", param, "code", status)
	case errText:
		return object(b, "error", message)
	case errTextType:
		kind = "generation"
		if status == http.StatusTooManyRequests {
			kind = "overloaded"
		} else if status < 500 {
			kind = "validation"
		}
		return object(b, "error", message, "error_type", kind)
	case errAzure:
		return object(b, "error", inner("code", strconv.Itoa(status), "message", message))
	case errFlat:
		return object(b, "message", message, "type", kind, "code", status)
	case errClaude:
		return object(b, "type", "error", "error", inner("type", kind, "message", message))
	}
	return object(b, "error", inner("message", message, "type", kind, "param", param, "code", kind))
}
