package chatshape

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"parley/generate/rawjson"
)

// Names of the tokens of an answer: those that it is to have, and those that it may have.
var (
	outputKeys = []string{"output_tokens", "output_length", "output_len"}
	limitKeys  = []string{"max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens"}
	bagKeys    = []string{"extra_body", "extra", "sampling_params", "parameters", "generation_config"}
)

// parameters are the request parameters that a record may have beside its messages, with the first bytes that
// their values may have; others of the same name say something else (a seed of a data set, a user's number).
var parameters = map[string]string{
	"temperature": "0", "top_p": "0", "top_k": "0", "min_p": "0", "frequency_penalty": "0", "presence_penalty": "0", "repetition_penalty": "0",
	"length_penalty": "0", "seed": "0", "n": "0", "min_tokens": "0", "top_logprobs": "0", "logprobs": "0tf", "ignore_eos": "tf", "stop": `"[`,
	"stop_token_ids": "[", "logit_bias": "{", "response_format": "{", "tool_choice": `"{`, "parallel_tool_calls": "tf", "reasoning_effort": `"`,
	"reasoning": "{", "thinking": "{", "chat_template_kwargs": "{", "guided_json": `{"`, "guided_regex": `"`, "guided_choice": "[",
	"guided_grammar": `"`, "structured_outputs": "{", "service_tier": `"`, "verbosity": `"`, "modalities": "[", "prompt_cache_key": `"`,
}

// parameters reads what a record asks for beside its messages.
func (b *builder) parameters(o object) error {
	for key, to := range map[string]*int64{"output": &b.output, "limit": &b.limit} {
		names := outputKeys
		if key == "limit" {
			names = limitKeys
		}
		n, err := tokens(o, names)
		if err != nil {
			return err
		}
		*to = n
	}
	body := object{}
	for _, key := range bagKeys {
		if raw := asJSON(o.get(key)); len(raw) > 0 && raw[0] == '{' {
			inner, err := rawjson.Members(raw)
			if err != nil {
				return err
			}
			for k, v := range inner {
				if !rawjson.Missing(v) && !slices.Contains(outputKeys, k) && !slices.Contains(limitKeys, k) {
					body[k] = v
				}
			}
			if n, err := tokens(inner, append(outputKeys[:len(outputKeys):len(outputKeys)], limitKeys...)); err != nil {
				return err
			} else if b.limit == 0 {
				b.limit = n
			}
		}
	}
	for k, v := range o {
		begins, known := parameters[k]
		switch {
		case rawjson.Missing(v):
		case b.request && !b.ours(k), known && slices.Contains([]byte(begins), first(v)):
			body[k] = v
		}
	}
	for k, v := range body {
		if !json.Valid(v) {
			return fmt.Errorf("%s is no JSON", k)
		}
		body[k] = json.RawMessage(compact(v))
	}
	if n := body["n"]; n != nil {
		if string(n) != "1" {
			b.note("parameters that a replay sets itself, left out", "n: %s", n)
		}
		delete(body, "n")
	}
	b.body = body
	return nil
}

// first gives the first byte of a value, 0 for any number.
func first(v []byte) byte {
	if c := v[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

// ours says whether a field of a request is read elsewhere, or decided by the replay.
func (b *builder) ours(key string) bool {
	for _, list := range [][]string{messageKeys[:1], toolKeys, systemKeys, outputKeys, limitKeys, bagKeys, idKeys, mediaKeys} {
		if slices.Contains(list, key) {
			return true
		}
	}
	return slices.Contains([]string{"prompt", "input", "model", "stream", "stream_options", "url", "method", "response", "error"}, key)
}

// tokens reads a number of tokens under the first of several names; 0 is none.
func tokens(o object, names []string) (int64, error) {
	for _, name := range names {
		raw := o.get(name)
		if raw == nil {
			continue
		}
		s, _ := rawjson.Scalar(raw)
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != math.Trunc(f) || f < 1 || f > 1e7 {
			if s == "-1" || s == "" || len(raw) > 0 && raw[0] == '"' {
				continue // no limit, or a text of that name
			}
			return 0, errors.New(name + " is " + clip(raw))
		}
		return int64(f), nil
	}
	return 0, nil
}
