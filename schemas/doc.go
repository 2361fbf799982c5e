// Package schemas is the interface between parley's verbs: the row types of its Parquet files, the
// metadata in their footers, the readers and writers of files and of the crash-safe journal, and the
// data dictionary.
//
// There are three kinds of file, each with a kind and a version in its footer:
//
//   - conversations: one row per conversation, written by generate and read by replay ([Conversation]);
//   - requests: one row per planned turn of a run, written by replay and read by analyze ([Request]);
//   - telemetry: one row per sample of a figure of the client or of the server during a run ([Sample]).
//
// A file is written beside its final name with the suffix ".partial" and renamed when it is whole, so a
// file under its own name is never half written. Readers refuse a file of another kind, or of a newer
// major version, and say so.
//
// The comment, unit and meaning of each column stand once, in the doc and unit tags of the row types;
// [Dictionary] and the Markdown page are made from them.
package schemas
