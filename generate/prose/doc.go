// Package prose makes text of an exact number of tokens.
//
// Text comes from a grammar of sentence templates over a word list of our own (some 2,500 words and their
// inflected forms), so nothing has to be downloaded and no text repeats: a sentence of ten words is one of
// about 10^20. Or it comes from text files of the user ([Corpus]), or is of another kind ([Voice]): source code,
// JSON and output of programs from templates, or words of another language.
//
// # How a text gets its length
//
// The tokenizers of language models cut a text into pieces before they merge bytes into tokens, and every
// one of the byte-level kind cuts before a space that a letter follows. So the tokens of " word" do not
// depend on what stands before it, and the length of a text is the sum of the lengths of its words and
// punctuation marks, which [New] counts once. A text is put together until its sum is what was asked for,
// and is then encoded once as a whole: the count that comes back is compared, never assumed. Should a
// tokenizer behave otherwise, the text is repaired until the count of the whole is right.
//
// Encoding again is cheaper than encoding: the tokenizer splits the whole text as ever, and a piece that comes
// out as one of the words that were put in has the tokens that were counted for it
// ([tokenizer.Tokenizer.CountParts]).
//
// # Joining
//
// Every text begins with a capital word that has as many tokens at the start of a text as behind other text
// with a space in front, and ends in a word, a full stop or a line. [Prose.Part] gives a text with its leading
// space: parts that are put one behind the other have exactly the tokens of the parts, and the leading space of a
// whole message is cut off.
package prose
