// Package checkm reads and writes checkm 0.7 manifests as the Merritt ingest queue uses them: a header that names a
// profile, one line of fields for each file or object, and a closing #%eof.
//
//	#%checkm_0.7
//	#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
//	https://example.org/s/a.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 6 |  | a.txt
//	#%eof
//
// Columns are positional: the profile says what they mean, and #%fields and #%prefix are only a courtesy to the reader. A
// [Reader] accepts what the original parser accepts (docs of the Merritt queue, section 5.1), with these rulings of our own:
//
//   - a file name that could leave the folder of its object is refused: absolute, a drive letter, a ".." between slashes or
//     backslashes; so is one that names no file ("", ".", "dir/");
//   - NUL, and a carriage return that is not part of a CRLF, are refused anywhere: the text after a lone CR would be a line
//     for one program and a comment for another;
//   - the last line must be #%eof. After one, a further manifest with its own header and the same profile may follow, so that
//     manifests can be concatenated; rows without a header, blank lines and comments may not end the file. A header between rows
//     needs #%eof before it: a first manifest that was cut off is no complete one. Strict mode takes one manifest alone;
//   - "#%profile URL" is read without the bar as well;
//   - a manifest without any header line is read if [Options.Assume] names its profile;
//   - a row with neither URL nor file name is refused;
//   - invalid UTF-8 becomes U+FFFD, as in the original, and leaves a warning.
//
// [Options.Strict] refuses also what the web validator of the California Digital Library reports as an error. There a file
// name may occur once only, which costs about 90 bytes of memory for each row; otherwise memory does not grow with the
// manifest, and whether a name occurs twice is the caller's question (compare path.Clean of the names).
//
// The end of a manifest is part of its grammar: a reader gives io.EOF only after #%eof, so a manifest that was cut off in
// transit ends in an [*Error] and not in fewer files.
package checkm
