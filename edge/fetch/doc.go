// Package fetch downloads what strangers name: payload URLs, manifest rows and images in e-mails.
//
// Every URL is hostile until proven otherwise, and so is every server behind one. The package therefore
// promises, for every request and again for every redirect:
//
//   - only http and https, at most MaxRedirects hops, no proxy from the environment, no cookies, no Referer, and
//     credentials of the URL go to the origin that the caller named and to no other;
//   - the address is judged after it was resolved, at the moment of the dial, so that a name which answers
//     differently the second time (DNS rebinding) gains nothing;
//   - private, loopback, link-local, shared, multicast, reserved and embedded-IPv4 addresses and the machine's own are
//     refused unless Policy.Allow names them;
//   - bytes are stored as they arrive (no content coding is undone), within a size limit, an idle limit, a minimum
//     rate and a total time, in constant memory.
//
// A download is written to name+".part" with a small record (name+".part.json") of what the server called that
// version. A later call goes on from there with Range and If-Range, and starts again when the server's version has
// changed. The final name appears only when size and digest are right and the bytes are synced.
//
// Sources: spec/reliability.md S1, S2 and the rows Estimating and Downloading; spec/merritt.md section 4;
// RFC 9110 sections 13.1.5 (If-Range), 14 (Range) and 15.4 (redirects); the IANA special-purpose address registries.
package fetch
