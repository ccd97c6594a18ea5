package servertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	inBrowser = flag.Bool("browser", false, "run the tests in a browser (make browser)")
	shots     = flag.String("shots", "", "take screenshots into this folder of the root instead (make screenshots)")
)

// browserTime bounds one run of the browser.
const browserTime = 5 * time.Minute

// Browser runs a script of scripts/browser against the server, if the tests run in a browser; else it skips the test.
// set is the standard input of the script, as JSON.
func (w *Harness) Browser(t *testing.T, script string, set map[string]any) {
	t.Helper()
	if !*inBrowser {
		t.Skip("make browser runs it")
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	node(t, w.Web.URL, text, script)
}

// ShotsWanted skips the test unless screenshots are taken.
func ShotsWanted(t *testing.T) {
	t.Helper()
	if *shots == "" {
		t.Skip("make screenshots runs it")
	}
}

// ShotsAs is [Shots] of the server, by the user of a token.
func (w *Harness) ShotsAs(t *testing.T, secret string, pages ...string) {
	t.Helper()
	Shots(t, w.Web.URL, secret, pages...)
}

// Shots takes the screenshots of pages of the server at url, each NAME=PATH, in the light and the dark theme, if that
// is asked for; else it skips the test. The user of the token secret signs in first; with "" no user signs in.
func Shots(t *testing.T, url, secret string, pages ...string) {
	t.Helper()
	ShotsWanted(t)
	const themes, width = "light,dark", "1280"
	dir := filepath.Join(root(t), *shots)
	set, err := json.Marshal(map[string]string{"token": secret})
	if err != nil {
		t.Fatal(err)
	}
	node(t, url, set, "shots.mjs", append([]string{dir, themes, width}, pages...)...)
	for _, page := range pages {
		name, _, _ := strings.Cut(page, "=")
		for theme := range strings.SplitSeq(themes, ",") {
			if err := shrink(filepath.Join(dir, name+"-"+theme+"-"+width+".png")); err != nil {
				t.Error(err)
			}
		}
	}
}

// shrink writes a picture with its 256 most frequent colors, which a page hardly exceeds.
func shrink(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return err
	}
	at, often := full.Bounds(), map[color.RGBA]int{}
	for y := at.Min.Y; y < at.Max.Y; y++ {
		for x := at.Min.X; x < at.Max.X; x++ {
			often[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(often), func(a, b color.RGBA) int {
		return cmp.Or(often[b]-often[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var few color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		few = append(few, c)
	}
	small := image.NewPaletted(at, few)
	draw.Draw(small, at, full, at.Min, draw.Src)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// node runs a script of scripts/browser with the address of a server.
func node(t *testing.T, url string, in []byte, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	cmd.Dir = filepath.Join(root(t), "scripts", "browser")
	cmd.Env = append(os.Environ(), "STAGEPOST_URL="+url)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// root returns the folder of the module, above that of the test.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatalf("the folder of the module is not found: %v", err)
	return ""
}
