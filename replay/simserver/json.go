package simserver

import "strconv"

// raw is JSON that is written as it stands.
type raw string

// members appends members of a JSON object, name and value in turn, with a comma before each but an object's first.
// Values are texts, numbers, truths, raw JSON and nil. Unlike encoding/json it keeps their order, as servers do, and
// costs nothing to speak of: some of it is written with every token.
func members(b []byte, pairs ...any) []byte {
	for i := 0; i < len(pairs); i += 2 {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), pairs[i].(string)...), `":`...)
		switch v := pairs[i+1].(type) {
		case string:
			b = appendJSONString(b, v)
		case raw:
			b = append(b, v...)
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case float64:
			b = strconv.AppendFloat(b, v, 'f', -1, 64)
		case bool:
			b = strconv.AppendBool(b, v)
		case nil:
			b = append(b, "null"...)
		default:
			panic("simserver: a member of an unknown type") // a fault of this package: its tests write every form
		}
	}
	return b
}

// object appends a JSON object.
func object(b []byte, pairs ...any) []byte { return append(members(append(b, '{'), pairs...), '}') }

// inner gives a JSON object as a value.
func inner(pairs ...any) raw { return raw(object(nil, pairs...)) }

// list gives a JSON list as a value.
func list(values ...raw) raw {
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return raw(append(b, ']'))
}

// appendJSONString appends s as a JSON string, with invalid UTF-8 replaced.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}
