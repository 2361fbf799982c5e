package generate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/generate/dist"
)

// presets are rounded from published traces:
//
//   - LMSYS-Chat-1M (Zheng et al., ICLR 2024): mean of 2.0 turns a conversation;
//   - ShareGPT (the dump used by vLLM's benchmarks): mean of 3.51 turns;
//   - WildChat (Zhao et al., ICLR 2024) and ShareChat (mean of 4.62 turns): the same shape, longer;
//   - ServeGen (Xiang et al., 2025): about 3.5 turns and about 100 s between turns in production chat;
//   - BurstGPT (Wang et al., 2024): median of 2 turns, 75 % with at most 4;
//   - Mooncake conversation trace (Qin et al., FAST 2025): gap between turns p50 124 s, p90 480 s, long
//     inputs, outputs of 343 tokens in the mean;
//   - Azure LLM inference trace 2023, code (Patel et al., Splitwise, ISCA 2024): 8,819 requests in 57
//     minutes, input p50 1,469, p90 5,188, at most 7,437, output p50 13, p90 55, at most 1,899;
//   - 739 public traces of coding agents (kv-cache-tester, traces/): median of 48 requests a session, input
//     p10/p50/p90 43k/110k/300k, output 103/218/937, 96 % of the input found in the cache.
var presets = map[string]func() *Spec{
	"chat":         chat,
	"longchat":     longChat,
	"coding-agent": codingAgent,
	"api":          api,
}

// Presets lists the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset gives a specification by name.
func Preset(name string) (*Spec, error) {
	make, ok := presets[name]
	if !ok {
		return nil, fmt.Errorf("no preset %q: there are %s", name, strings.Join(Presets(), ", "))
	}
	s := make()
	s.FileType, s.Preset = fileType, name
	return s, nil
}

func ref(d dist.Dist) *dist.Dist { return &d }

// chatRequests has 36 % conversations of one request. The others have a geometric number, at least 2: with
// p = 0.213, 60 % of all have at most 2 (median 2), 75 % at most 4 (both as BurstGPT), and the mean is 3.4
// (ShareGPT 3.51, ServeGen about 3.5). The longest are cut at 20.
func chatRequests() *dist.Dist {
	return ref(dist.Mixture(dist.Constant(1).Weighing(0.36), dist.Geometric(0.213).Clamped(2, 20).Weighing(0.64)))
}

// chatGap is ServeGen's median of 100 s with Mooncake's 90th percentile of 480 s.
func chatGap() *dist.Dist { return ref(dist.LognormalP90(100, 480)) }

func chat() *Spec {
	return &Spec{
		NumConversations: 1000,
		SharedPrefix:     &SharedPrefix{Groups: 16, NumTokens: ref(dist.Uniform(0, 500))},
		PromptInput: PromptInput{
			NumRequests: chatRequests(),
			// LMSYS-Chat-1M, WildChat: short questions with a long tail of pasted text.
			NumTokens: ref(dist.LognormalMean(60, 200).Clamped(1, 16_000)),
		},
		PromptOutput: PromptOutput{NumTokens: ref(dist.LognormalMean(200, 350).Clamped(1, 4_096))},
		ThinkTime:    chatGap(),
	}
}

func longChat() *Spec {
	return &Spec{
		NumConversations: 1000,
		SharedPrefix:     &SharedPrefix{Groups: 16, NumTokens: ref(dist.Uniform(1000, 2000))},
		PromptInput: PromptInput{
			NumRequests: chatRequests(),
			// Mooncake conversation trace: the first message brings the document, later ones ask about it.
			FirstNumTokens: ref(dist.LognormalP90(6_900, 27_000).Clamped(1, 120_000)),
			NumTokens:      ref(dist.LognormalMean(100, 343).Clamped(1, 16_000)),
		},
		PromptOutput: PromptOutput{NumTokens: ref(dist.LognormalMean(200, 343).Clamped(1, 4_096))},
		ThinkTime:    chatGap(),
	}
}

func codingAgent() *Spec {
	return &Spec{
		NumConversations: 100,
		// The tool definitions and instructions that every session has, and what each session loads of its
		// own project. (The definitions themselves come on top: see toolDefinitions.)
		SharedPrefix: &SharedPrefix{Groups: 1, NumTokens: ref(dist.Constant(13_000))},
		PromptInput: PromptInput{
			NumRequests: ref(dist.LognormalMean(45, 80).Clamped(1, 1_200)),
			Prefix:      ref(dist.Constant(10_000)),
			NumTokens:   ref(dist.LognormalP90(650, 3_700).Clamped(1, 60_000)),
		},
		PromptOutput: PromptOutput{NumTokens: ref(dist.LognormalP90(215, 900).Clamped(1, 16_000))},
		// One request in ten waits for a person, the others for a tool.
		ThinkTime: ref(dist.LognormalP90(85, 1_200)),
		ToolUse:   &ToolUse{Share: 0.9, Code: true, ThinkTime: ref(dist.LognormalP90(0.3, 14))},
		SubAgents: subAgents(),
		// The longest context window that is commonly served.
		MaxPrompt: 1_000_000,
	}
}

// subAgents are those of two of these traces, 0010 and 0014, which are four "Explore" agents and one, called by
// 3 of the 316 requests of six sessions, one or three at once, a second after the answer; all were waited for.
// They have 2 to 24 requests (median 7), begin with 10,000 tokens of tools and instructions that all have, bring
// 1,189 new tokens a request in the median (90th percentile 7,927), answer with 284 (467), and end with a report of
// 3,627; their tools take 4.6 s (14.8). That the session waits for all is also how the traces' publisher replays them.
func subAgents() *SubAgents {
	return &SubAgents{
		Share: 0.01, Joined: 1,
		AtOnce:       ref(dist.Mixture(dist.Constant(1).Weighing(2), dist.Constant(3).Weighing(1))),
		Delay:        ref(dist.Uniform(0.2, 1)),
		NumRequests:  ref(dist.LognormalP90(7, 24).Clamped(1, 100)),
		SharedPrefix: ref(dist.Constant(10_000)),
		First:        ref(dist.LognormalP90(170, 250).Clamped(20, 4_000)),
		NumTokens:    ref(dist.LognormalP90(1_189, 7_927).Clamped(1, 60_000)),
		ToolTime:     ref(dist.LognormalP90(4.6, 14.8)),
		Output:       ref(dist.LognormalP90(284, 467).Clamped(1, 4_096)),
		LastOutput:   ref(dist.LognormalP90(3_627, 3_900).Clamped(100, 8_192)),
	}
}

func api() *Spec {
	const shared, longest = 1_024, 7_437
	return &Spec{
		NumConversations: 1000,
		SharedPrefix:     &SharedPrefix{Groups: 8, NumTokens: ref(dist.Constant(shared))},
		PromptInput: PromptInput{
			NumRequests: ref(dist.Constant(1)),
			// With the shared prefix, the median and the 90th percentile are those of the trace.
			NumTokens: ref(dist.LognormalP90(1_469-shared, 5_188-shared).Clamped(1, longest-shared)),
		},
		PromptOutput: PromptOutput{NumTokens: ref(dist.LognormalP90(13, 55).Clamped(1, 1_899))},
		// 8,819 requests in 3,436 s. The trace's own gaps have a coefficient of variation of 13, which is
		// some long lulls; 0.25 (a coefficient of variation of 2) is the burstiness between them.
		Arrivals: &Arrivals{Rate: 2.57, Burstiness: 0.25},
	}
}
