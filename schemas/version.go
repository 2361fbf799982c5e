package schemas

import (
	"runtime/debug"
	"sync"
)

// release is the version of this source tree; CHANGELOG.md says what is in it.
const release = "0.1.0"

// Version gives the tool's version, with the commit it was built from where the build recorded one.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if commit == "" {
		return release
	}
	return release + commit + dirty
})
