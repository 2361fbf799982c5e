package prose

import "strings"

// plural gives the regular plural of a noun of the word list.
func plural(noun string) string { return withS(noun) }

// third gives the third person singular of a regular verb.
func third(verb string) string { return withS(verb) }

func withS(w string) string {
	switch {
	case w == "axis":
		return "axes"
	case hasAnySuffix(w, "s", "x", "z", "ch", "sh", "ero", "cho") || w == "potato" || w == "tomato" || w == "volcano":
		return w + "es"
	case endsInConsonantY(w):
		return w[:len(w)-1] + "ies"
	case strings.HasSuffix(w, "lf"):
		return w[:len(w)-1] + "ves"
	case strings.HasSuffix(w, "man"):
		return w[:len(w)-2] + "en"
	}
	return w + "s"
}

// past gives the past tense of a regular verb that does not double its last consonant.
func past(verb string) string {
	switch {
	case verb == "teach":
		return "taught"
	case strings.HasSuffix(verb, "e"):
		return verb + "d"
	case endsInConsonantY(verb):
		return verb[:len(verb)-1] + "ied"
	}
	return verb + "ed"
}

// gerund gives the -ing form under the same condition.
func gerund(verb string) string {
	if strings.HasSuffix(verb, "e") && !strings.HasSuffix(verb, "ee") {
		return verb[:len(verb)-1] + "ing"
	}
	return verb + "ing"
}

func capital(w string) string { return strings.ToUpper(w[:1]) + w[1:] }

func hasAnySuffix(w string, suffixes ...string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(w, s) {
			return true
		}
	}
	return false
}

func endsInConsonantY(w string) bool {
	return len(w) > 1 && w[len(w)-1] == 'y' && !strings.ContainsRune("aeiou", rune(w[len(w)-2]))
}
