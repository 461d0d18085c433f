// What OpenClaw's manifest says of the plugin. `openclaw plugins build` writes `openclaw.plugin.json` from it, and
// `openclaw plugins validate` compares the two, so that a setting that the plugin reads is one that OpenClaw admits.

export const ID = 'memfw';
export const NAME = 'memfw';
export const DESCRIPTION =
  'Asks memfw before the agent writes to its memory, refuses poison with a reason, and hands memory to the model by trust';

/** Where `openclaw plugins build` and `validate` look in an entry; `defineToolPlugin` of OpenClaw 2026.9.6 puts it there. */
export const METADATA = Symbol.for('openclaw.plugin-sdk.tool-plugin.metadata');

/** What they find. The plugin has no tool: nothing of it can be called by a model. */
export const metadata = {
  id: ID,
  name: NAME,
  description: DESCRIPTION,
  activation: { onStartup: true, onCapabilities: ['hook'] },
  configSchema: {
    type: 'object',
    additionalProperties: false,
    properties: {
      program: {
        type: 'string',
        description: 'The memfw program, as an absolute path; the one that installed the plugin if it is empty',
      },
      timeoutMs: {
        type: 'integer',
        minimum: 10,
        maximum: 5000,
        default: 50,
        description: 'How long a tool call waits for a verdict; after that it goes on',
      },
      reads: {
        type: 'boolean',
        default: true,
        description: 'Whether what the agent reads of its memory comes by trust',
      },
      readTimeoutMs: {
        type: 'integer',
        minimum: 50,
        maximum: 5000,
        default: 2000,
        description: 'How long a read of memory waits; after that the agent reads the text as it is',
      },
      notices: {
        type: 'boolean',
        default: true,
        description: 'Whether the owner is told in a chat of what was taken out of memory, with ids and without its words',
      },
      judge: {
        type: 'boolean',
        default: true,
        description:
          "Whether OpenClaw's model answers memfw's questions; memfw asks none unless judge.via is queue",
      },
    },
  },
  tools: [],
};
