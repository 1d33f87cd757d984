// A page that is opened from disk cannot start a Worker. This class runs the script in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow, page = this.frame.contentDocument;
      window.addEventListener("message", event => {
        if (event.source !== inside) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
      this.ready = new Promise(loaded => this.frame.addEventListener("load", loaded, { once: true }));
      page.open();
      page.write(`<script>postMessage = data => parent.postMessage(data, "*")<\/script>`);
      page.write(`<script src="${new URL(url, location)}"><\/script>`);
      page.close();
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
