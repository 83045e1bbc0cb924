"""Records a program in a pseudoterminal, and draws its output as an animated SVG.

  record.py run FILE COMMAND...   runs the command, shows its output, and writes it to FILE
  record.py draw FILE             prints the SVG
"""

import html
import os
import pty
import re
import sys

COLUMNS, ROWS = 100, 30
# In pixels. The width of a character is set for each line, so every monospace font fits.
CHARACTER, LINE, MARGIN, BAR = 8.4, 18, 16, 34
# How long a reader looks at a line, in seconds: a sentence or command, and a line of output.
SENTENCE, OUTPUT, END = 1.5, 0.12, 8.0

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
STYLE = """
  text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }
  .sentence { fill: #c9d1d9 } .output { fill: #9da7b3 }
  .command { fill: #7ee787; font-weight: bold } .title { fill: #79c0ff; font-weight: bold }
"""


def run(file, command):
    """Runs the command in a terminal; everything that it prints is written to the file, too."""
    with open(file, "wb") as recorded:

        def read(terminal):
            data = os.read(terminal, 4096)
            recorded.write(data)
            return data

        status = os.waitstatus_to_exitcode(pty.spawn(command, read))
    if status:
        sys.exit(f"{command[0]} ended with exit code {status}")


def without_this_machine(text):
    """Replaces the directories and the ports of this run."""
    text = re.sub(r", logs in \S+", "", text)
    text = re.sub(r"(/[\w.-]+)+/storage\b", "/srv/storage", text)
    # Where kube-controller-manager provisions the volumes of the demo.
    text = text.replace("/tmp/hostpath_pv/", "/srv/hostpath_pv/")
    text = re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:6443", text)
    for place in ("/tmp/", "/home/", "/.cache/", os.getcwd()):
        if place in text:
            sys.exit(f"the output contains a path of this machine: {place}")
    return text


def lines(text):
    """The lines as (kind, text), each at most as wide as the terminal."""
    for line in text.replace("\r\n", "\n").rstrip("\n").split("\n"):
        bold = line.lstrip().startswith(BOLD)
        line = line.replace(BOLD, "").replace(PLAIN, "").rstrip()
        if {"\x1b", "\r"} & set(line):
            sys.exit(f"an escape sequence that is not drawn: {line!r}")
        if bold:
            kind = "title" if line.startswith("====") else "command"
        else:
            kind = "output" if line.startswith("  ") else "sentence"
        for start in range(0, max(len(line), 1), COLUMNS):
            yield kind, line[start : start + COLUMNS]


def steps(drawn):
    """For each moment its duration and the number of lines that are visible then."""
    number = 0
    for number, (kind, text) in enumerate(drawn, 1):
        following = drawn[number][0] if number < len(drawn) else None
        # A sentence of several lines, a wrapped command and an empty line appear at once.
        if text and (kind == "output" or kind != following):
            yield (OUTPUT if kind == "output" else SENTENCE), number
    yield END, number


def row(number, kind, text):
    y, width = (number + 1) * LINE - 5, len(text) * CHARACTER
    text = html.escape(text, quote=False)
    return f'<text class="{kind}" y="{y}" textLength="{width:.1f}">{text}</text>'


def draw(text):
    drawn = list(lines(without_this_machine(text)))
    moments = list(steps(drawn))
    total = sum(duration for duration, _ in moments)
    frames, passed = [], 0.0
    for duration, visible in moments:
        offset = (ROWS - visible) * LINE
        frames.append(f"{100 * passed / total:.3f}% {{ transform: translateY({offset}px) }}")
        passed += duration
    end = (ROWS - len(drawn)) * LINE
    frames.append(f"100% {{ transform: translateY({end}px) }}")
    inner_width, inner_height = COLUMNS * CHARACTER, ROWS * LINE
    width, height = inner_width + 2 * MARGIN, inner_height + MARGIN + BAR
    dots = "".join(
        f'<circle cx="{MARGIN + 6 + 20 * place}" cy="{BAR / 2:g}" r="6" fill="{colour}"/>'
        for place, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    )
    rows = "\n".join(
        row(number, kind, text) for number, (kind, text) in enumerate(drawn) if text
    )
    animation = f"animation: play {total:.1f}s step-end infinite"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>A recording of cargo demo --once</title>
<style>{STYLE}
  .screen {{ transform: translateY({end}px); {animation} }}
  @media (prefers-reduced-motion: reduce) {{ .screen {{ animation: none }} }}
  @keyframes play {{
{chr(10).join(frames)}
  }}
</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117"/>
{dots}
<svg x="{MARGIN}" y="{BAR}" width="{inner_width:g}" height="{inner_height}">
<g class="screen">
{rows}
</g>
</svg>
</svg>
"""


def main(arguments):
    match arguments:
        case ["run", file, *command] if command:
            run(file, command)
        case ["draw", file]:
            with open(file, encoding="utf-8", newline="") as recorded:
                sys.stdout.write(draw(recorded.read()))
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
