// The node's last hour, second by second, and how it is: asked for as long as somebody looks.

import type { Condition, Overview, Point } from "./answers.ts";
import { type Api, Problem } from "./api.ts";
import { callPath } from "./route.ts";

export type Mood = "ok" | "warn" | "bad" | "unknown";

const POINTS_MAX = 3600;
/** On the overview each second counts; elsewhere only the sentence on top is shown. */
const WATCHED_MS = 1000;
const UNWATCHED_MS = 5000;

export class Feed {
  points: Point[] = [];
  last: Overview | undefined;
  mood: Mood = "unknown";
  sentence = "Asking the node how it is…";
  watched = false;
  #heard = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #life = 0;
  #ahead = 0;

  constructor(readonly api: Api) {
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.#running) this.start();
    });
  }

  /** The node's clock: the browser's may be another. */
  get now(): number {
    return Date.now() + this.#ahead;
  }

  get running(): boolean {
    return this.#running;
  }

  get conditions(): Condition[] {
    return this.last?.health.conditions ?? [];
  }

  /** Tells of each answer, until the signal. */
  listen(heard: () => void, signal?: AbortSignal): void {
    this.#heard.add(heard);
    signal?.addEventListener("abort", () => this.#heard.delete(heard));
  }

  start(): void {
    this.stop();
    this.#running = true;
    void this.#turn(this.#life);
  }

  /** An answer to a question of an earlier life comes too late. */
  stop(): void {
    this.#running = false;
    this.#life += 1;
    clearTimeout(this.#timer);
  }

  forget(): void {
    this.stop();
    this.points = [];
    this.last = undefined;
    this.#become("unknown", "Asking the node how it is…");
  }

  async #turn(life: number): Promise<void> {
    if (document.hidden) return;
    try {
      const after = this.points.at(-1)?.t ?? 0;
      const answer = await this.api.get<Overview>(
        callPath("/v1/node/overview", { after, limit: POINTS_MAX }),
      );
      if (life !== this.#life) return;
      this.#take(answer);
    } catch (error) {
      if (life !== this.#life) return;
      if (!this.#fail(error)) {
        this.#running = false;
        return;
      }
    }
    this.#timer = setTimeout(() => void this.#turn(life), this.watched ? WATCHED_MS : UNWATCHED_MS);
  }

  #take(answer: Overview): void {
    // A process that began anew has another past.
    if (this.last && this.last.node.started !== answer.node.started) this.points = [];
    this.last = answer;
    this.#ahead = answer.now_ms - Date.now();
    const known = this.points.at(-1)?.t ?? 0;
    for (const point of answer.points) if (point.t > known) this.points.push(point);
    if (this.points.length > POINTS_MAX) this.points.splice(0, this.points.length - POINTS_MAX);
    const critical = answer.health.conditions.some(({ severity }) => severity === "critical");
    this.#become(answer.health.ok ? "ok" : critical ? "bad" : "warn", answer.health.sentence);
  }

  /** Whether it is worth asking again. */
  #fail(error: unknown): boolean {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) return false;
    this.#become(error.status === 403 ? "unknown" : "bad", `${error.title}: ${error.detail}.`);
    return error.status !== 403;
  }

  #become(mood: Mood, sentence: string): void {
    this.mood = mood;
    this.sentence = sentence;
    for (const heard of this.#heard) heard();
  }
}
