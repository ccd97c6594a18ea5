package checkm_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stagepost/stagepost/format/checkm"
)

func ExampleReader() {
	manifest := `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-batch-manifest
https://example.org/s/first.checkm |  |  |  |  | first.checkm |  | loc1;loc2 | A. Person
#%eof
`
	r := checkm.NewReader("batch.checkm", strings.NewReader(manifest), checkm.Options{})
	profile, err := r.Profile()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(profile, profile.Batch())
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(row.Line, row.URL, row.LocalIDs(), row.Creator)
	}
	// Output:
	// mrt-batch-manifest true
	// 3 https://example.org/s/first.checkm [loc1 loc2] A. Person
}

func ExampleError() {
	manifest := `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
https://example.org/a | md5 | b1946ac92492d2347c6235b4d2611184 | 12x |  | a.txt
#%eof`
	_, err := checkm.NewReader("batch.checkm", strings.NewReader(manifest), checkm.Options{}).Read()
	fmt.Println(err)
	if e := (*checkm.Error)(nil); errors.As(err, &e) {
		fmt.Println(e.Line, e.Column)
	}
	// Output:
	// batch.checkm:3:66: expected a file size in bytes, found "12x"
	// 3 66
}

func ExampleOptions() {
	manifest := `#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest
https://example.org/a | sha-512 | 00 |  |  | a.txt
#%eof`
	for _, strict := range []bool{false, true} {
		_, err := checkm.NewReader("a.checkm", strings.NewReader(manifest), checkm.Options{Strict: strict}).Read()
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// a.checkm:3:25: expected md5 or sha-256, found "sha-512"
}

func ExampleWriter() {
	w := checkm.NewWriter(os.Stdout, checkm.ContainerObject)
	row := checkm.Row{FileName: "producer/a|b.txt", Size: 6,
		Digest: checkm.Digest{Algorithm: checkm.MD5, Value: "b1946ac92492d2347c6235b4d2611184"}}
	if err := w.Write(row); err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// #%checkm_0.7
	// #%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-object-manifest
	// #%prefix | nfo:<http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#>
	// #%prefix | nie:<http://www.semanticdesktop.org/ontologies/2007/01/19/nie/#>
	// #%prefix | mrt:<http://uc3.cdlib.org/ontology/mrt/mom#>
	// #%columns | nfo:fileName | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nie:mimeType
	// producer/a%7cb.txt | md5 | b1946ac92492d2347c6235b4d2611184 | 6
	// #%eof
}

func ExampleNewHash() {
	h, err := checkm.NewHash("SHA-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	h.Write([]byte("hello\n"))
	digest := checkm.Digest{Algorithm: checkm.SHA1, Value: "F572D396FAE9206628714FB2CE00F72E94F2258F"}
	fmt.Println(digest.Matches(h.Sum(nil)))
	// Output: true
}
