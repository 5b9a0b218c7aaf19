// Decisions as a table, the newest first. Only new ones are sent; rows that stay are not drawn again, so that focus and
// selection stay too. Everything is put into the page as text by Vue.
export default {
  props: { columns: Array, shown: Array, most: Number },
  data() {
    return { rows: this.shown };
  },
  template: `
    <table class="pk-decisions">
      <caption class="pk-aside">Decisions, the newest first</caption>
      <thead><tr><th v-for="one in columns" :key="one[0]" scope="col">{{ one[1] }}</th></tr></thead>
      <tbody>
        <tr v-for="row in rows" :key="row.key" class="pk-row" @click="pick(row)">
          <td v-for="one in columns" :key="one[0]" :class="'pk-cell-' + one[0]">
            <a v-if="one[0] === 'at'" :href="row.href" class="pk-pick" :aria-label="'Explain decision ' + row.id"
              @click.stop="follow($event, row)">{{ time(row.at) }}</a>
            <span v-else-if="one[0] === 'effect'" :class="'pk-effect pk-' + row.effect">{{ row.effect }}</span>
            <bdi v-else-if="one[0] === 'reason'"><template v-for="(part, at) in parts(row.reason)" :key="at"><code v-if="at % 2">{{ part }}</code><template v-else>{{ part }}</template></template></bdi>
            <bdi v-else>{{ row[one[0]] }}</bdi>
          </td>
        </tr>
      </tbody>
    </table>`,
  mounted() {
    document.addEventListener("visibilitychange", this.look);
  },
  unmounted() {
    document.removeEventListener("visibilitychange", this.look);
  },
  methods: {
    look() {
      this.$emit("look", !document.hidden);
    },
    put(rows) {
      this.rows = rows;
    },
    add(rows) {
      const all = [...rows, ...this.rows];
      this.rows = all.sort((a, b) => b.at - a.at || b.id - a.id).slice(0, this.most);
    },
    parts(reason) {
      return reason.split(/`([^`]+)`/); // every second one stood in backticks
    },
    time(at) {
      return new Date(at * 1000).toLocaleTimeString([], { hour12: false });
    },
    follow(event, row) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.pick(row);
    },
    pick(row) {
      this.$emit("pick", [row.node, row.id]);
    },
  },
};
