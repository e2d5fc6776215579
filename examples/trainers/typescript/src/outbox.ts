/** What waits to be sent on a stream; iterating ends, and so half-closes the stream, after `close`. */
export class Outbox<T> implements AsyncIterable<T> {
  #waiting: T[] = [];
  #closed = false;
  #wake = () => {};

  push(item: T): void {
    this.#waiting.push(item);
    this.#wake();
  }

  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    for (;;) {
      while (this.#waiting.length > 0) yield this.#waiting.shift()!;
      if (this.#closed) return;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
