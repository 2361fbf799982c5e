// Package prose makes English text of an exact number of tokens.
//
// Text comes from a grammar of sentence templates over a word list of our own (some 2,500 words and their
// inflected forms), so nothing has to be downloaded and no text repeats: a sentence of ten words is one of
// about 10^20. Or it comes from text files of the user ([Corpus]).
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
// # Joining
//
// Every text begins with a capital word that has the same number of tokens with and without a space in
// front, and ends in a word or a full stop. [Prose.Part] gives a text with its leading space: parts that
// are put one behind the other have exactly the tokens of the parts one behind the other, and the leading
// space of a whole message may be cut off without changing its length.
package prose
