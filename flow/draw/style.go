package draw

import "regexp"

var themed = regexp.MustCompile(`([a-z-]+):(var\(--[a-z-]+,(#[0-9a-f]{6})\))`)

// Style is the style sheet that every SVG carries inside. A page that allows no inline style serves it with its own;
// colours are custom properties of .flow-picture, so that a page can set them to its theme. States differ by icon, edge
// and word as well as by colour. Each such colour follows a plain one, for programs that know no custom properties, as
// librsvg.
var Style = themed.ReplaceAllString(style, "$1:$3;$1:$2")

const style = `.flow-picture{` +
	`--fp-ground:#ffffff;--fp-box:#f3f5f8;--fp-nest:#f9fafc;--fp-ink:#1c2430;--fp-line:#667182;` +
	`--fp-running:#0b57d0;--fp-running-fill:#d7e5ff;` +
	`--fp-success:#1a7340;--fp-success-fill:#dff3e6;--fp-failed:#b3261e;--fp-failed-fill:#fde3e1;--fp-revert:#7a3fc0;--fp-revert-fill:#eee2fa;--fp-waits:#7a5a00;--fp-waits-fill:#ffe29a}
@media (prefers-color-scheme:dark){.flow-picture{--fp-ground:#14181f;--fp-box:#222934;--fp-nest:#191e27;--fp-ink:#e8ecf2;--fp-line:#97a3b4;--fp-running:#8ab4ff;` +
	`--fp-running-fill:#1d335c;--fp-success:#6fd69b;--fp-success-fill:#173a27;--fp-failed:#ff9d94;` +
	`--fp-failed-fill:#4a1f1c;--fp-revert:#cda4ff;--fp-revert-fill:#38244f;` +
	`--fp-waits:#ffd873;--fp-waits-fill:#4a3c10}}
.flow-picture text{font:12px system-ui,-apple-system,"Segoe UI","DejaVu Sans",Roboto,sans-serif;fill:var(--fp-ink,#1c2430)}
.flow-picture .name{font-size:13px;font-weight:600}
.flow-picture .caption{font-size:12px;font-weight:600}
.flow-picture .mid{text-anchor:middle}
.flow-picture .ground{fill:var(--fp-ground,#ffffff)}
.flow-picture .nest{fill:var(--fp-nest,#f9fafc);stroke:var(--fp-line,#667182);stroke-width:1}
.flow-picture .inner{fill:var(--fp-ground,#ffffff)}
.flow-picture .box{fill:var(--fp-box,#f3f5f8);stroke:var(--fp-line,#667182);stroke-width:1.2}
.flow-picture .again,.flow-picture .icon{fill:none;stroke:var(--fp-line,#667182);stroke-width:1.2}
.flow-picture .icon{stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.flow-picture .line{fill:none;stroke:var(--fp-line,#667182);stroke-width:1.4}
.flow-picture .head{fill:var(--fp-line,#667182)}
.flow-picture .grid{stroke:var(--fp-line,#667182);stroke-width:.6;stroke-dasharray:1 3}
.flow-picture .dashed{stroke-dasharray:6 4}
.flow-picture .track{fill:var(--fp-ground,#ffffff);stroke:var(--fp-line,#667182);stroke-width:.6}
.flow-picture .bar{fill:var(--fp-line,#667182)}
.flow-picture .running .box{fill:var(--fp-running-fill,#d7e5ff);stroke:var(--fp-running,#0b57d0);stroke-width:2.4}
.flow-picture .running .icon,.flow-picture .running .mark{stroke:var(--fp-running,#0b57d0)}
.flow-picture .running .bar{fill:var(--fp-running,#0b57d0)}
.flow-picture .success .box{fill:var(--fp-success-fill,#dff3e6);stroke:var(--fp-success,#1a7340)}
.flow-picture .success .icon{stroke:var(--fp-success,#1a7340)}
.flow-picture .success .bar{fill:var(--fp-success,#1a7340)}
.flow-picture .failed .box,.flow-picture .worse .box{fill:var(--fp-failed-fill,#fde3e1);stroke:var(--fp-failed,#b3261e);stroke-width:2.4}
.flow-picture .failed .icon,.flow-picture .worse .icon,.flow-picture .worse .again,.flow-picture .failed .mark{stroke:var(--fp-failed,#b3261e)}
.flow-picture .failed .bar,.flow-picture .worse .bar{fill:var(--fp-failed,#b3261e)}
.flow-picture .reverting .box,.flow-picture .reverted .box{fill:var(--fp-revert-fill,#eee2fa);stroke:var(--fp-revert,#7a3fc0);stroke-dasharray:6 3}
.flow-picture .reverting .box{stroke-width:2.4}
.flow-picture .reverting .icon,.flow-picture .reverted .icon,.flow-picture .reverting .mark{stroke:var(--fp-revert,#7a3fc0)}
.flow-picture .reverting .bar{fill:var(--fp-revert-fill,#eee2fa);stroke:var(--fp-revert,#7a3fc0)}
.flow-picture .culprit .box{fill:var(--fp-revert-fill,#eee2fa);stroke:var(--fp-failed,#b3261e);stroke-width:2.4;stroke-dasharray:6 3}
.flow-picture .culprit .icon{stroke:var(--fp-failed,#b3261e)}
.flow-picture .culprit .bar{fill:var(--fp-revert-fill,#eee2fa);stroke:var(--fp-revert,#7a3fc0)}
.flow-picture .reverted .name,.flow-picture .culprit .name{text-decoration:line-through}
.flow-picture .waits .box{fill:var(--fp-waits-fill,#ffe29a);stroke:var(--fp-waits,#7a5a00)}
.flow-picture .waits .icon{stroke:var(--fp-waits,#7a5a00)}
.flow-picture .waits .bar{fill:var(--fp-waits-fill,#ffe29a);stroke:var(--fp-waits,#7a5a00);stroke-dasharray:3 2}
.flow-picture .ignored .box{fill:var(--fp-ground,#ffffff);stroke-dasharray:1.5 3}
.flow-picture .ignored .name{font-weight:400;font-style:italic}
`

// icons are the shapes of the states in a square of 12, by the class of a check.
var icons = map[string]string{
	"pending":   "M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
	"running":   "M3 1l8 5-8 5z",
	"waits":     "M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0M6 3v3l2.5 1.5",
	"success":   "M1 6.5l3.5 3.5L11 2",
	"failed":    "M2 2l8 8M10 2l-8 8",
	"worse":     "M2 2l8 8M10 2l-8 8M.5.5h11v11h-11z",
	"culprit":   "M2 2l8 8M10 2l-8 8",
	"reverting": "M5 1L1 5l4 4M1 5h6a4 4 0 0 1 4 4v2",
	"reverted":  "M5 1L1 5l4 4M1 5h10",
	"ignored":   "M1 6a5 5 0 1 0 10 0a5 5 0 1 0-10 0M2.5 2.5l7 7",
}
