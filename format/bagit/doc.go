// Package bagit writes and checks bags (RFC 8493, BagIt 1.0): a payload below data/ and manifests of its checksums.
//
// A [Writer] writes the tag files of a bag. The payload stays elsewhere, so a bag is assembled without copying it.
// [Validate] checks a bag that is a directory, a ZIP, a TAR or a tar.gz file. A bag is complete if every listed file
// exists and the payload has no other file (section 3). A bag is valid if it is complete and every checksum matches.
// Bags of the versions 0.93 to 0.97 are checked by the rules of their version.
package bagit
