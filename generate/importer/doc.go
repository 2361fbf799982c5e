// Package importer reads datasets and traces of other tools as conversations.
//
// What the records are ([Format]) and in what kind of file they come have nothing to do with each other: a
// carrier cuts a JSON array, JSON lines, Parquet or CSV, compressed or not, into records, each a JSON object,
// and the first format that matches reads them. Chats, whatever their shape, are read by package chatshape.
//
// Everything streams: memory does not grow with the size of the file, apart from a few dozen bytes per record
// where records belong together (split conversations, sessions, chains of chats). Those files are read twice;
// input that can be read only once (stdin, compressed files) is copied into a temporary file for it.
//
// # Three steps
//
// Reading is one goroutine, the work on a record can be done by many, and the result is put in order by one
// again:
//
//	in, err := importer.Open(paths, importer.Options{Tokenizer: tok})
//	for item, err := range in.Items() { // one goroutine
//		result, err := in.Finish(item)   // any number of goroutines: parsing, tokens, text
//		rows, more := in.Commit(result)  // one goroutine, in the order of the items
//	}
//	report := in.Report()
//
// [Importer.Conversations] does the three one after the other.
//
// # Records that are no good
//
// A bad record is left out and told in the report, with the file, the line or row, and the reason. Only a
// file that cannot be read at all is an error.
//
// # What stands for an answer that nobody recorded
//
// Where a source has several questions but no answers (MT-Bench), the place of each answer is an assistant
// message whose content is null. A replay with the live history puts the server's answer there.
package importer
