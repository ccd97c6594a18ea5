// Package checkm reads and writes checkm 0.7 manifests as the Merritt ingest queue uses them: a header that names a
// profile, one line of fields for each file or object, and a closing #%eof.
//
//	#%checkm_0.7
//	#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
//	https://example.org/s/a.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 6 |  | a.txt
//	#%eof
//
// Columns are positional: the profile defines them. #%fields and #%prefix only inform the reader. A [Reader] accepts
// what the parser of the Merritt queue accepts, with these exceptions:
//
//   - It refuses a file name that could leave the folder of its object: an absolute name, a drive letter, or a ".."
//     between
//     slashes or backslashes. It also refuses a name that is not that of a file ("", ".", "dir/").
//   - It refuses NUL, and a carriage return that is not part of a CRLF. After a lone CR, one program reads a new
//     line and
//     another one reads the rest of a comment.
//   - The last line must be #%eof. Another manifest with its own header and the same profile may follow, so that
//     manifests
//     can be concatenated. Rows without a header, blank lines and comments must not end the file. A header between rows
//     needs #%eof before it, because otherwise the first manifest was cut off. Strict mode accepts one manifest only.
//   - It reads "#%profile URL", without the bar, as well.
//   - It reads a manifest without a header line if [Options.Assume] names its profile.
//   - It refuses a row with neither URL nor file name.
//   - Invalid UTF-8 becomes U+FFFD, as in Merritt, and gives a warning.
//
// [Options.Strict] also refuses what the web validator of the California Digital Library reports as an error. In
// strict mode a file name may occur only once, which costs about 90 bytes of memory for each row. Otherwise memory
// does not grow with the manifest, and the caller checks for repeated names (compare path.Clean of the names).
//
// The end of a manifest is part of its grammar. A reader returns io.EOF only after #%eof, so a truncated manifest
// ends with an [*Error] and not with fewer files.
package checkm
