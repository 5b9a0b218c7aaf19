// The picture of the ensemble. Everything that is shown comes as data and is put into the page as text by Vue; nothing
// of it is ever taken for HTML. What changes every second comes by `tell`, in the order of the scene.
import { BOX, CLIENT, ROW, STUB, byForces, edge } from "/static/places.js";

const NOTHING = ["silent", 0, 0, 0, 0, false];
const WORDS = { up: "up", down: "down", away: "not connected", silent: "no data", trouble: "trouble" };
const NARROW = 600;
const MOST_ROWS = 300;
const BEND = STUB * 0.82; // of a client's line, from the client
const LABEL = 104; // wide, on a client's line: arrowheads stay free on both sides

function cut(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function perSecond(rate) {
  if (!rate) return "0/s";
  if (rate < 10) return rate.toFixed(1) + "/s";
  if (rate < 10000) return Math.round(rate) + "/s";
  return (rate / 1000).toFixed(1) + "k/s";
}

export default {
  template: `
<div class="pm" @keydown.esc="$emit('close')">
  <div class="pm-bar" role="toolbar" aria-label="Map">
    <input class="pm-find" v-model="wanted" type="search" aria-label="Find a node, client or type"
      placeholder="Find a node, client or type" @keydown.enter="find">
    <span class="pm-zoom" v-show="!table">
      <button type="button" aria-label="Zoom in" @click="zoom(1.3)">+</button>
      <button type="button" aria-label="Zoom out" @click="zoom(1 / 1.3)">−</button>
      <button type="button" aria-label="Show all" @click="fit">Fit</button>
    </span>
    <button type="button" class="pm-switch" :aria-pressed="'' + table" @click="flip">{{ table ? "As map" : "As table" }}</button>
    <span class="pm-sum"><span v-for="one in sums" :class="{ 'pm-bad': one.bad }">{{ one.text }}</span></span>
  </div>
  <ul class="pm-legend" aria-label="Link types">
    <li v-for="(type, i) in scene.types"><span :class="['pm-swatch', 'pm-' + colour(type)]" aria-hidden="true"></span>{{ cut(type, 40) }}</li>
    <li v-if="!table"><span class="pm-swatch pm-swatch-down" aria-hidden="true"></span>down</li>
  </ul>
  <div class="pm-hidden" aria-live="polite">{{ broken }}</div>
  <svg v-if="!table" ref="svg" class="pm-svg" :class="{ 'pm-far': isFar, 'pm-faded': lit.length }" role="group"
    :style="{ '--pm-grow': grow }" aria-label="The ensemble: nodes, clients and links" @wheel.prevent="wheel" @pointerdown="grab" @pointermove="drag"
    @pointerup="drop" @pointercancel="drop" @keydown="key">
    <defs>
      <marker v-for="i in 9" :id="mark_ + (i - 1)" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="15" markerHeight="15" markerUnits="userSpaceOnUse" orient="auto">
        <path d="M0 0L8 4L0 8z" :class="i > 8 ? 'pm-fill-down' : 'pm-fill-' + (i - 1)"></path>
      </marker>
    </defs>
    <g :transform="'translate(' + x + ' ' + y + ') scale(' + scale + ')'">
      <g v-for="one in lines" :key="one.key" class="pm-link" :class="['pm-is-' + linkNow(one.i)[0], one.client ? 'pm-client-link' : '', is(one.link.a, one.link.b) ? 'pm-open' : '', steps[one.i] ? 'pm-lit' : '']"
        :tabindex="isMany ? -1 : 0" role="button" :aria-label="told(one)" :data-link="one.link.a + ' ' + one.link.b" :data-state="linkNow(one.i)[0]"
        @click="open(one.link.a, one.link.b)" @keydown.enter.prevent="open(one.link.a, one.link.b)" @keydown.space.prevent="open(one.link.a, one.link.b)">
        <path class="pm-hit" :d="one.whole"></path>
        <path v-for="(way, back) in one.ways" class="pm-line" :class="['pm-' + way.colour, goes.has(one.i + ' ' + back) ? 'pm-goes' : '']" :d="way.d"
          :marker-end="'url(#' + mark_ + (linkNow(one.i)[0] === 'down' ? 8 : way.number) + ')'"></path>
        <g class="pm-label" :transform="'translate(' + one.at[0] + ' ' + one.at[1] + ')'">
          <rect :x="-one.width / 2" :y="one.client ? -16 : -19" :width="one.width" :height="one.client ? 32 : 38" rx="5"></rect>
          <text :y="-4" class="pm-type">{{ one.type }}</text>
          <text :y="10" class="pm-rate">{{ rates(one) }}</text>
        </g>
        <g v-if="linkNow(one.i)[0] === 'down'" class="pm-badge pm-badge-down" :transform="'translate(' + one.at[0] + ' ' + (one.at[1] - 28) + ') scale(' + grow + ')'">
          <rect x="-24" y="-10" width="48" height="19" rx="9"></rect><text y="4">down</text>
        </g>
        <g v-if="linkNow(one.i)[3]" class="pm-badge pm-badge-denied" :class="{ 'pm-hot': linkNow(one.i)[5] }"
          :transform="'translate(' + one.at[0] + ' ' + (one.at[1] + (one.client ? 27 : 30)) + ') scale(' + grow + ')'">
          <rect :x="-denied(one.i).length * 3.6 - 6" y="-10" :width="denied(one.i).length * 7.2 + 12" height="18" rx="9"></rect><text y="3.5">{{ denied(one.i) }}</text>
        </g>
      </g>
      <g v-for="one in boxes" :key="'n' + one.node.name" class="pm-node" :class="['pm-is-' + nodeNow(one.i)[0], is(one.node.name) ? 'pm-open' : '', litNames.has(one.node.name) ? 'pm-lit' : '', one.node.foreign ? 'pm-foreign' : '']"
        tabindex="0" role="button" :aria-label="toldNode(one)" :data-node="one.node.name" :data-state="nodeNow(one.i)[0]"
        :transform="'translate(' + one.at[0] + ' ' + one.at[1] + ')'"
        @click="open(one.node.name)" @keydown.enter.prevent="open(one.node.name)" @keydown.space.prevent="open(one.node.name)">
        <rect class="pm-box" x="${-BOX[0] / 2}" y="${-BOX[1] / 2}" width="${BOX[0]}" height="${BOX[1]}" rx="9"></rect>
        <text class="pm-name" :y="isFar ? 10 : -8">{{ cut(one.node.name, isFar ? 9 : 17) }}</text>
        <text class="pm-rate" y="8">{{ nodeLine(one) }}</text>
        <text class="pm-rate" y="22">{{ nodeState(one) }}</text>
      </g>
      <g v-for="one in clients" :key="'c' + one.key" class="pm-client" :class="['pm-is-' + linkNow(one.i)[0], is(one.link.a, one.link.b) ? 'pm-open' : '', litNames.has(one.link.a) ? 'pm-lit' : '']"
        :transform="'translate(' + one.client[0] + ' ' + one.client[1] + ')'" @click="open(one.link.a, one.link.b)">
        <rect class="pm-box" x="${-CLIENT[0] / 2}" y="${-CLIENT[1] / 2}" width="${CLIENT[0]}" height="${CLIENT[1]}" rx="4"></rect>
        <text class="pm-name" y="4">{{ cut(one.link.a, 17) }}</text>
      </g>
      <g v-for="one in way" :key="'s' + one.i" class="pm-step" :transform="'translate(' + (one.at[0] - one.width / 2 - 14) + ' ' + one.at[1] + ') scale(' + grow + ')'">
        <circle r="12"></circle><text y="4">{{ steps[one.i] }}</text>
      </g>
    </g>
  </svg>
  <div v-else class="pm-table-box">
    <table class="pm-table">
      <caption class="pm-hidden">Links with their types, packets a second each way, refusals and messages that wait</caption>
      <thead><tr><th scope="col">Link</th><th scope="col">Type</th><th scope="col" class="pm-wide">State</th><th scope="col" class="pm-figure">There</th>
        <th scope="col" class="pm-figure">Back</th><th scope="col" class="pm-figure">Denied</th><th scope="col" class="pm-figure pm-wide">Waiting</th></tr></thead>
      <tbody>
        <tr v-for="one in rows.shown" :key="one.key" :class="'pm-row-' + linkNow(one.i)[0]" :data-row="one.link.a + ' ' + one.link.b">
          <th scope="row"><button type="button" class="pm-open-row" @click="open(one.link.a, one.link.b)">{{ cut(one.link.a, 60) }} → {{ cut(one.link.b, 60) }}</button>
            <span v-if="linkNow(one.i)[0] !== 'up'" class="pm-narrow" :class="{ 'pm-bad': linkNow(one.i)[0] === 'down' }">{{ words[linkNow(one.i)[0]] }}</span></th>
          <td><span :class="['pm-swatch', 'pm-' + colour(one.link.there)]" aria-hidden="true"></span>{{ one.type }}</td>
          <td class="pm-wide" :class="{ 'pm-bad': linkNow(one.i)[0] === 'down' }">{{ words[linkNow(one.i)[0]] }}</td>
          <td class="pm-figure">{{ rate(linkNow(one.i), 1) }}</td><td class="pm-figure">{{ rate(linkNow(one.i), 2) }}</td>
          <td class="pm-figure" :class="{ 'pm-bad': linkNow(one.i)[3] }">{{ linkNow(one.i)[3] }}</td><td class="pm-figure pm-wide">{{ linkNow(one.i)[4] }}</td>
        </tr>
      </tbody>
      <tbody aria-label="Nodes">
        <tr v-for="one in rows.nodes" :key="'n' + one.node.name" :data-row="one.node.name">
          <th scope="row"><button type="button" class="pm-open-row" @click="open(one.node.name)">{{ cut(one.node.name, 60) }}</button>
            <span v-if="nodeNow(one.i)[0] !== 'up'" class="pm-narrow" :class="{ 'pm-bad': nodeNow(one.i)[0] === 'down' }">{{ words[nodeNow(one.i)[0]] }}</span></th>
          <td>{{ one.node.foreign ? "foreign broker" : "node" }}</td><td class="pm-wide" :class="{ 'pm-bad': nodeNow(one.i)[0] === 'down' }">{{ words[nodeNow(one.i)[0]] }}</td>
          <td class="pm-figure">{{ rate(nodeNow(one.i), 2) }}</td><td class="pm-figure"></td><td class="pm-figure">{{ nodeNow(one.i)[3] }}</td><td class="pm-wide">{{ nodeLine(one) }}</td>
        </tr>
      </tbody>
    </table>
    <p v-if="rows.more" class="pm-more">and {{ rows.more }} more: write above what to look for</p>
  </div>
</div>`,
  props: { scene: Object, now: Object, lit: Array },
  data() {
    return { live: this.now || { nodes: [], links: [] }, x: 0, y: 0, scale: 1, table: window.innerWidth < NARROW, wanted: "", who: [], isOwn: false };
  },
  created() {
    this.words = WORDS;
    this.fingers = new Map();
    this.mark_ = "pm" + Math.random().toString(36).slice(2) + "-";
  },
  mounted() {
    this.watcher = new ResizeObserver(() => { if (!this.isOwn) this.fit(); });
    this.see();
  },
  unmounted() { this.watcher.disconnect(); },
  watch: {
    scene() { if (!this.isOwn) this.$nextTick(this.fit); },
    lit() { this.$nextTick(this.fit); },
  },
  computed: {
    places() {
      const nodes = this.scene.nodes;
      if (nodes.every((one) => one.at)) return nodes.map((one) => one.at);
      return byForces(nodes, this.scene.links);
    },
    byName() { return new Map(this.scene.nodes.map((one, i) => [one.name, i])); },
    boxes() { return this.scene.nodes.map((node, i) => ({ node, i, at: this.places[i] })); },
    lines() {
      return this.scene.links.map((link, i) => {
        const end = this.places[this.byName.get(link.b)];
        let points, client = null;
        if (link.client) {
          const of = this.scene.nodes[this.byName.get(link.b)];
          client = [end[0] + BOX[0] / 2 + STUB + CLIENT[0] / 2, end[1] + ROW * (link.row - (of.drawn - 1) / 2)];
          // Beside each other at the node too: one arrowhead does not hide the next.
          const into = end[1] + Math.min(16, BOX[1] / of.drawn) * (link.row - (of.drawn - 1) / 2);
          points = [[client[0] - CLIENT[0] / 2, client[1]], [client[0] - CLIENT[0] / 2 - BEND, client[1]], [end[0] + BOX[0] / 2, into]];
          if (client[1] === into) points.splice(1, 1);
        } else {
          const begin = this.places[this.byName.get(link.a)], through = [begin, ...link.bends, end];
          points = [edge(begin, through[1], BOX), ...link.bends, edge(end, through[through.length - 2], BOX)];
        }
        return this.line(link, i, points, client);
      });
    },
    // Then only nodes are on the way of the Tab key: links are in their panels, and in the table.
    isMany() { return this.boxes.length + this.lines.length > 100; },
    isFar() { return this.scale < 0.5; },
    // From far away what must be seen is drawn larger.
    grow() { return this.isFar ? Math.min(3, 0.75 / this.scale) : 1; },
    clients() { return this.lines.filter((one) => one.client); },
    order() {
      const found = new Map();
      this.scene.links.forEach((one, i) => { found.set(JSON.stringify([one.a, one.b]), i); found.set(JSON.stringify([one.b, one.a]), i); });
      return found;
    },
    steps() {
      const found = {};
      this.lit.forEach((ends, at) => {
        const i = this.order.get(JSON.stringify(ends));
        if (i !== undefined) found[i] = found[i] ? found[i] + "," + (at + 1) : "" + (at + 1);
      });
      return found;
    },
    // Which directions of links the way takes.
    goes() {
      return new Set(this.lit.map((ends) => {
        const i = this.order.get(JSON.stringify(ends));
        return i === undefined ? "" : i + " " + (this.scene.links[i].a === ends[0] ? 0 : 1);
      }));
    },
    way() { return this.lines.filter((one) => this.steps[one.i]); },
    litNames() { return new Set(this.lit.flat()); },
    sums() {
      const links = this.live.links, down = links.filter((one) => one[0] === "down").length;
      const denied = links.reduce((sum, one) => sum + one[3], 0);
      const silent = this.live.nodes.filter((one) => one[0] === "silent" || one[0] === "down").length;
      const joined = this.scene.links.filter((one) => !one.client).length, many = (n, word) => n + " " + word + (n === 1 ? "" : "s");
      const found = [{ text: many(this.scene.nodes.length, "node") }, { text: many(joined, "link") }];
      if (down) found.push({ text: many(down, "link") + " down", bad: true });
      if (silent) found.push({ text: many(silent, "node") + " not heard", bad: true });
      if (denied) found.push({ text: denied + " denied", bad: true });
      return found;
    },
    broken() {
      const found = this.scene.links.filter((_, i) => this.linkNow(i)[0] === "down").map((one) => one.a + " to " + one.b);
      return found.length ? "Broken: " + found.slice(0, 5).join(", ") : "";
    },
    rows() {
      const has = (...texts) => !this.wanted || texts.some((one) => one.toLowerCase().includes(this.wanted.toLowerCase()));
      const found = this.lines.filter((one) => has(one.link.a, one.link.b, one.link.there, one.link.back));
      const rank = { down: 0, up: 1, silent: 2, away: 3 };
      found.sort((one, other) => rank[this.linkNow(one.i)[0]] - rank[this.linkNow(other.i)[0]] || !!one.client - !!other.client || one.i - other.i);
      const nodes = this.boxes.filter((one) => has(one.node.name));
      const more = Math.max(0, found.length - MOST_ROWS) + Math.max(0, nodes.length - MOST_ROWS);
      return { shown: found.slice(0, MOST_ROWS), nodes: nodes.slice(0, MOST_ROWS), more };
    },
  },
  methods: {
    cut,
    // Links that no node reports have no known state.
    rate(now, at) { return now[0] === "silent" ? "" : perSecond(now[at]); },
    tell(live) { this.live = live; },
    point(who) { this.who = who; },
    // The keyboard goes back to what was open.
    leave(who) {
      const name = who.join(" "), all = [...this.$el.querySelectorAll("[data-node], [data-link], [data-row]")];
      const found = all.find((one) => [one.dataset.node, one.dataset.link, one.dataset.row].includes(name));
      (found?.querySelector("button") || found)?.focus();
    },
    is(...who) { return who.length === this.who.length && who.every((one, i) => one === this.who[i]); },
    linkNow(i) { return this.live.links[i] || NOTHING; },
    nodeNow(i) { return this.live.nodes[i] || NOTHING; },
    number(type) { return Math.max(0, this.scene.types.indexOf(type)) % 8; },
    colour(type) { return "t" + this.number(type); },
    denied(i) { return this.linkNow(i)[3] + " denied"; },
    line(link, i, points, client) {
      const first = points[0], last = points[points.length - 1], far = Math.hypot(last[0] - first[0], last[1] - first[1]) || 1;
      const side = [(-(last[1] - first[1]) / far) * 3.2, ((last[0] - first[0]) / far) * 3.2];
      const path = (by, of) => "M" + of.map(([x, y]) => (x + side[0] * by).toFixed(1) + " " + (y + side[1] * by).toFixed(1)).join("L");
      const way = (type, by, of) => ({ colour: this.colour(type), number: this.number(type), d: path(by, of) });
      const half = Math.max(0, (points.length >> 1) - 1), p = points[half], q = points[half + 1];
      // Nearer to the lower end, where lines that meet in one node are further apart.
      const part = client ? BEND / 2 / Math.hypot(q[0] - p[0], q[1] - p[1]) : q[1] > p[1] ? 0.58 : 0.42;
      const [one, each] = client ? [14, 6] : [22, 14];
      const type = link.there === link.back ? cut(link.there, one) : cut(link.there, each) + " ⇄ " + cut(link.back, each);
      return {
        link, i, client, key: link.a + "\n" + link.b, whole: path(0, points), type,
        ways: [way(link.there, 1, points), way(link.back, -1, [...points].reverse())],
        at: [p[0] + (q[0] - p[0]) * part, p[1] + (q[1] - p[1]) * part], width: client ? LABEL : Math.max(type.length * 6.6 + 12, 112),
        arrows: client || Math.abs(last[0] - first[0]) > Math.abs(last[1] - first[1]) ? (last[0] > first[0] ? "→←" : "←→") : last[1] > first[1] ? "↓↑" : "↑↓",
      };
    },
    rates(one) {
      const now = this.linkNow(one.i);
      if (now[0] === "away" || now[0] === "silent") return WORDS[now[0]];
      if (now[0] === "down") return now[4] + " waiting";
      return one.arrows[0] + perSecond(now[1]) + " " + one.arrows[1] + perSecond(now[2]);
    },
    nodeLine(one) {
      const now = this.nodeNow(one.i), total = one.node.clients;
      if (one.node.foreign) return "foreign broker";
      const text = (total ? now[1] + " of " + total : now[1]) + (total === 1 || (!total && now[1] === 1) ? " client" : " clients");
      return now[0] === "silent" || now[0] === "down" ? (total ? total + " clients" : "") : text;
    },
    nodeState(one) {
      const now = this.nodeNow(one.i);
      return now[0] === "up" ? (one.node.foreign ? "" : perSecond(now[2]) + " in") : WORDS[now[0]];
    },
    told(one) {
      const { link, i } = one, now = this.linkNow(i);
      const types = link.there === link.back ? "type " + link.there : "types " + link.there + " and back " + link.back;
      const moves = now[0] === "silent" ? "" : `${perSecond(now[1])} there, ${perSecond(now[2])} back, `;
      return `${link.client ? "client" : "link"} ${cut(link.a, 80)} to ${cut(link.b, 80)}, ${types}, ${WORDS[now[0]]}, ${moves}${now[3]} denied`;
    },
    toldNode(one) {
      return `${one.node.foreign ? "foreign broker" : "node"} ${one.node.name}, ${this.nodeLine(one)}, ${WORDS[this.nodeNow(one.i)[0]]}`;
    },
    open(...who) {
      if (this.dragged) return;
      this.$emit("open", who);
    },
    flip() {
      this.table = !this.table;
      this.isOwn = false;
      this.$nextTick(this.see);
    },
    see() {
      this.watcher.disconnect();
      if (this.$refs.svg) { this.watcher.observe(this.$refs.svg); this.fit(); }
    },
    size() {
      const box = this.$refs.svg.getBoundingClientRect();
      return [box.width || 800, box.height || 500];
    },
    fit() {
      if (!this.$refs.svg || !this.boxes.length) return;
      let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
      const take = ([x, y], [w, h]) => {
        left = Math.min(left, x - w / 2); right = Math.max(right, x + w / 2);
        top = Math.min(top, y - h / 2); bottom = Math.max(bottom, y + h / 2);
      };
      // What is lit, if something is.
      const isIn = (name) => !this.lit.length || this.litNames.has(name);
      this.boxes.forEach((one) => isIn(one.node.name) && take(one.at, BOX));
      this.clients.forEach((one) => isIn(one.link.a) && take(one.client, CLIENT));
      if (left > right) return;
      const [wide, high] = this.size();
      this.scale = Math.min(this.lit.length ? 1.1 : 1.4, (wide - 40) / (right - left), (high - 40) / (bottom - top));
      this.x = wide / 2 - (this.scale * (left + right)) / 2;
      this.y = high / 2 - (this.scale * (top + bottom)) / 2;
      this.isOwn = false;
    },
    zoom(by, at) {
      const [wide, high] = this.size(), [px, py] = at || [wide / 2, high / 2];
      const scale = Math.min(4, Math.max(0.03, this.scale * by)), real = scale / this.scale;
      this.x = px - (px - this.x) * real;
      this.y = py - (py - this.y) * real;
      this.scale = scale;
      this.isOwn = true;
    },
    wheel(event) {
      const box = this.$refs.svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), [event.clientX - box.left, event.clientY - box.top]);
    },
    grab(event) {
      this.fingers.set(event.pointerId, [event.clientX, event.clientY]);
      this.grabbed = [event.clientX, event.clientY, this.x, this.y];
      this.dragged = this.fingers.size > 1;
    },
    // Two fingers: as far as they move apart, around the middle between them.
    pinch(event) {
      const apart = () => { const [a, b] = [...this.fingers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]) || 1; };
      const before = apart(), box = this.$refs.svg.getBoundingClientRect();
      this.fingers.set(event.pointerId, [event.clientX, event.clientY]);
      const [a, b] = [...this.fingers.values()];
      this.zoom(apart() / before, [(a[0] + b[0]) / 2 - box.left, (a[1] + b[1]) / 2 - box.top]);
    },
    drag(event) {
      if (this.fingers.size === 2 && this.fingers.has(event.pointerId)) return this.pinch(event);
      if (!this.grabbed) return;
      const dx = event.clientX - this.grabbed[0], dy = event.clientY - this.grabbed[1];
      if (!this.dragged && Math.hypot(dx, dy) < 5) return;
      if (!this.dragged) this.$refs.svg.setPointerCapture(event.pointerId);
      this.dragged = this.isOwn = true;
      this.x = this.grabbed[2] + dx;
      this.y = this.grabbed[3] + dy;
    },
    drop(event) {
      this.grabbed = null;
      this.fingers.delete(event.pointerId);
      setTimeout(() => { this.dragged = false; }); // after the click that ends a drag
    },
    key(event) {
      const by = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (by) { this.x += by[0]; this.y += by[1]; this.isOwn = true; }
      else if (event.key === "+" || event.key === "=") this.zoom(1.3);
      else if (event.key === "-") this.zoom(1 / 1.3);
      else if (event.key === "0") this.fit();
      else return;
      event.preventDefault();
    },
    // Bring what is looked for to the middle, and the keyboard to it.
    find() {
      const text = this.wanted.toLowerCase();
      if (!text || this.table) return;
      const of = (one) => [one.node ? one.node.name : one.link.a, one.node ? "" : one.link.there].map((name) => name.toLowerCase());
      const all = [...this.boxes, ...this.clients, ...this.lines.filter((one) => !one.client)];
      const found = all.find((one) => of(one)[0] === text) || all.find((one) => of(one).some((name) => name.includes(text)));
      if (!found) return;
      const [wide, high] = this.size(), at = found.client || found.at;
      this.scale = Math.max(this.scale, 0.9);
      this.x = wide / 2 - at[0] * this.scale;
      this.y = high / 2 - at[1] * this.scale;
      this.isOwn = true;
      const name = found.node ? found.node.name : found.link.a + " " + found.link.b, kind = found.node ? "node" : "link";
      this.$nextTick(() => [...this.$refs.svg.querySelectorAll("[data-" + kind + "]")].find((one) => one.dataset[kind] === name)?.focus());
    },
  },
};
