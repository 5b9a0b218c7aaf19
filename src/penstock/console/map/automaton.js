// A state diagram: each state is a box with its edges as rows, and from a row that leads to another state an arrow goes
// there, in a lane of its own to the right. So texts never lie over each other, and what can happen now is in one box.
// What an edge gives is always shown: on a row of its own if the condition is long, of which the title has all.
const LEFT = 26, WIDTH = 262, HEAD = 26, ROW = 18, GAP = 20, LANE = 13;
const MOST = 34; // letters that a box is wide

function cut(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

export default {
  template: `
<svg class="pa" role="img" :aria-label="told" :width="width" :height="height" :viewBox="'0 0 ' + width + ' ' + height">
  <defs>
    <marker :id="id + 'soft'" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="pa-tip" d="M0 0L8 4L0 8z"></path></marker>
    <marker :id="id + 'lit'" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" markerHeight="5" orient="auto"><path class="pa-tip-lit" d="M0 0L8 4L0 8z"></path></marker>
  </defs>
  <circle class="pa-start" cx="7" :cy="boxes[0].y + ${HEAD} / 2" r="5"></circle>
  <path class="pa-arrow" :d="'M12 ' + (boxes[0].y + ${HEAD} / 2) + 'H${LEFT - 1}'" :marker-end="'url(#' + id + 'soft)'"></path>
  <g v-for="box in boxes" class="pa-state" :class="{ 'pa-lit': box.state.name === state }" :data-of="box.state.name">
    <rect class="pa-box" x="${LEFT}" :y="box.y" width="${WIDTH}" :height="box.height" rx="8"></rect>
    <rect class="pa-head" x="${LEFT}" :y="box.y" width="${WIDTH}" height="${HEAD}" rx="8"></rect>
    <text class="pa-name" x="${LEFT + 10}" :y="box.y + 18">{{ cut(box.state.name, 28) }}</text>
    <text v-if="box.state.name === state" class="pa-now" x="${LEFT + WIDTH - 10}" :y="box.y + 18">now</text>
    <g v-for="row in box.rows"><title>{{ row.whole }}</title>
      <text v-for="(line, at) in row.lines" :class="'pa-edge pa-' + row.edge.does" :x="${LEFT + 10} + at * 12" :y="row.y + 15 + at * ${ROW}">{{ line }}</text>
    </g>
    <text v-if="box.state.more" class="pa-edge" x="${LEFT + 10}" :y="box.y + box.height - 11">and {{ box.state.more }} more</text>
  </g>
  <path v-for="one in arrows" class="pa-arrow" :class="{ 'pa-arrow-lit': one.from === state }" :d="one.d" :marker-end="'url(#' + id + (one.from === state ? 'lit' : 'soft') + ')'"></path>
</svg>`,
  props: { drawn: Object, state: String, name: String },
  created() { this.id = "pa" + Math.random().toString(36).slice(2) + "-"; },
  methods: { cut },
  computed: {
    boxes() {
      let y = 4;
      return this.drawn.states.map((state) => {
        let below = y + HEAD;
        const rows = state.edges.map((edge) => {
          const whole = edge.given + " / " + edge.gives;
          const lines = whole.length <= MOST ? [whole] : [cut(edge.given, MOST), "/ " + cut(edge.gives, MOST - 4)];
          const row = { edge, whole, lines, y: below };
          below += lines.length * ROW;
          return row;
        });
        const box = { state, rows, y, height: below - y + (state.more ? ROW : 0) + 8 };
        y += box.height + GAP;
        return box;
      });
    },
    // The shortest arrows get the inner lanes; two share one if they do not meet.
    ways() {
      const found = [];
      this.boxes.forEach((box) => box.rows.forEach(({ edge, lines, y }) => {
        if (edge.next === null) return;
        found.push({ from: box.state.name, begin: y + 11 + (lines.length - 1) * ROW, to: edge.next });
      }));
      const into = this.boxes.map(() => 0);
      for (const one of found) one.end = this.boxes[one.to].y + 8 + ((into[one.to]++ * 5) % 15);
      const lanes = [];
      found.sort((one, other) => Math.abs(one.end - one.begin) - Math.abs(other.end - other.begin));
      for (const one of found) {
        const low = Math.min(one.begin, one.end) - 4, high = Math.max(one.begin, one.end) + 4;
        let lane = lanes.findIndex((taken) => taken.every(([from, to]) => high < from || to < low));
        if (lane < 0) lane = lanes.push([]) - 1;
        lanes[lane].push([low, high]);
        one.lane = lane;
      }
      return { found, lanes: lanes.length };
    },
    arrows() {
      return this.ways.found.map((one) => {
        const right = LEFT + WIDTH, x = right + 14 + one.lane * LANE;
        return { from: one.from, d: `M${right} ${one.begin}H${x}V${one.end}H${right + 1}` };
      });
    },
    width() { return LEFT + WIDTH + 18 + this.ways.lanes * LANE; },
    height() { const last = this.boxes[this.boxes.length - 1]; return last.y + last.height + 4; },
    told() { return `state diagram of ${this.name}: ${this.drawn.states.map((one) => one.name).join(", ")}; ${this.state ? "now in " + this.state : "state not known"}`; },
  },
};
