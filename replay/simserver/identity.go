package simserver

import (
	"net/http"
	"strings"
)

// identities is how servers can be told from each other by those who ask: the owner of their models, and
// a path of their own with its answer.
var identities = map[string]struct{ owner, path, answer, flush string }{
	"vllm":     {"vllm", "/version", `{"version":"0.11.0"}`, "/reset_prefix_cache"},
	"sglang":   {"sglang", "/get_server_info", `{"version":"0.5.4","status":"ready"}`, "/flush_cache"},
	"trtllm":   {"tensorrt_llm", "/version", `{"version":"1.1.0"}`, ""},
	"llamacpp": {"llamacpp", "/props", `{"build_info":"b6900-simulated","total_slots":1,"default_generation_settings":{}}`, ""},
	"ollama":   {"library", "/api/version", `{"version":"0.12.6"}`, ""},
	"tgi":      {"sim", "/info", `{"model_id":"sim","version":"3.3.6","router":"text-generation-router"}`, ""},
	"openai":   {"openai", "", "", ""},
	"azure":    {"azure", "", "", ""},
	"mistral":  {"mistralai", "", "", ""},
	"dynamo":   {"nvidia", "", "", ""},
	"lmstudio": {"organization_owner", "", "", ""},
}

// owner is whose model the list of models says that it is.
func (s *Server) owner() string {
	if s.cfg.Identify {
		if o := identities[s.cfg.Dialect].owner; o != "" {
			return o
		}
	}
	return "simserver"
}

// identify answers the paths by which a server of the dialect can be told, and says whether path is one.
func (s *Server) identify(k sink, method, path string, query string) bool {
	if !s.cfg.Identify {
		return false
	}
	id := identities[s.cfg.Dialect]
	slot, isSlot := strings.CutPrefix(path, "/slots/")
	switch {
	case id.path != "" && path == id.path:
		s.reply(k, http.StatusOK, append(buffer(), id.answer...))
	case (path == "/reset_prefix_cache" || path == "/flush_cache") && path != id.flush:
		s.deny(k, http.StatusNotFound, "Not Found")
	case s.cfg.Dialect == "llamacpp" && path == "/slots":
		s.reply(k, http.StatusOK, append(buffer(), list(inner("id", 0, "is_processing", s.accelerator.load().running > 0))...))
	case s.cfg.Dialect == "llamacpp" && isSlot && method == http.MethodPost && query == "action=erase":
		if slot != "0" {
			s.deny(k, http.StatusBadRequest, "Invalid slot ID")
			return true
		}
		erased := s.accelerator.load().cached * s.cfg.BlockSize
		s.accelerator.resetCache()
		s.reply(k, http.StatusOK, object(buffer(), "id_slot", 0, "n_erased", erased))
	default:
		return false
	}
	return true
}
