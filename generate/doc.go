// Package generate makes datasets of conversations: synthetic ones from a [Spec] (vLLM's generation config,
// ours, or a preset), and imports of real ones (package importer does the reading).
//
// [Run] writes a dataset, [Describe] tells what one holds. Texts come from package prose, lengths and
// times from package dist, tokens from package tokenizer.
//
// # What is exact
//
// Every synthetic message has exactly the tokens that were drawn for it, by the dataset's tokenizer, which
// the making of each text checks by encoding it as a whole. A turn's prompt_tokens are the tokens of all
// messages that its request sends, each encoded by itself: of their content, and of the function names and
// arguments of tool calls. The server's chat template and the tool definitions come on top.
//
// The first message of a synthetic conversation is made of up to three parts, in this order: the common
// prefix (the same in all conversations), the conversation's own prefix, and the message itself. Each has
// its own length and all are added up. (In vLLM's script the common prefix counts against num_tokens.)
// What is shared is shared token for token; what follows differs from every other conversation after a few
// tokens.
//
// # The same seed
//
// A conversation depends on the seed, the specification and its number. Neither the number of workers nor
// of parts nor of conversations changes it, nor the processor: package schemas/random has the functions that
// are exact everywhere, times are rounded to whole microseconds before they are stored and hashed, and CI
// compares the files of builds for different processors byte by byte.
package generate
