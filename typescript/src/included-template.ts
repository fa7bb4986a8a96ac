import { writeFileSync } from 'fs';
import { join } from 'path';
import {
  Annotations, aws_s3_assets, CfnResource, cloudformation_include, Lazy, Stack, Stage, TagManager, Token,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { inProps } from './declared';
import { OUTPUTS } from './members';
import { synthesize, VERSION, Written } from './tool';

/** A file that declares endpoints: its path, or its content. */
export interface Source {
  readonly path?: string;
  readonly content?: string;
  /** The id of the endpoint that is meant. Default: the only one. */
  readonly endpoint?: string;
  /** The values of the file's parameters. */
  readonly parameters?: Record<string, any>;
  /** The names of the roles whose path and name is the value of a parameter, by that. */
  readonly roleNames?: Record<string, string>;
  /** The command that synthesizes the file. */
  readonly command?: string[];
}

// In place of the app's tags, which are known later than the template.
const TAGS = 'constructs-optim:tags';
const TAGS_IN_TEXT = new RegExp(`(,?)\\{"Key":"${TAGS}","Value":"${TAGS}"\\}(,?)`);
const prefixes = new WeakMap<Stack, Map<string, string>>();

/** The path of a construct in its stack as one id. */
export function idInStack(scope: Construct, id: string): string {
  const stack = Stack.of(scope);
  const scopes = scope.node.scopes;
  const ids = [...scopes.slice(scopes.indexOf(stack) + 1).map((each) => each.node.id), id];
  return ids.join('').replace(/[^A-Za-z0-9]/g, '');
}

/** What the logical ids of a construct's template begin with, which no other of its stack does. */
function prefixOf(construct: Construct): string {
  const { path, id, scope } = construct.node;
  const prefix = idInStack(scope!, id);
  const known = prefixes.get(Stack.of(construct)) ?? new Map<string, string>();
  prefixes.set(Stack.of(construct), known);
  if (prefix === '' || (known.get(prefix) ?? path) !== path) {
    const why = prefix === '' ? 'its id has no letter of A to Z and no digit' : `so are those of ${known.get(prefix)}`;
    throw new Error(`${path}: logical ids are called after it, and ${why}: give it another id`);
  }
  known.set(prefix, path);
  return prefix;
}

/** The template of a file, included in a stack under logical ids that begin with the path of the construct in it. */
export class IncludedTemplate {
  /** The id of the endpoint that is meant, as outputs have it. */
  public readonly endpoint: string;
  private readonly include: cloudformation_include.CfnInclude;
  private readonly outputs: Record<string, { Value: any }>;
  private readonly values: Record<string, string>;

  /** Have the file's template made, and include it below a construct; what its handlers tag has the tags of `tags`. */
  constructor(scope: Construct, source: Source, tags: TagManager) {
    const prefix = prefixOf(scope);
    const folder = join(Stage.of(scope)!.assetOutdir, `constructs-optim.${Stack.of(scope).artifactId}.${prefix}`);
    const written = writtenFor(scope, source, prefix, folder);
    const original = { Parameters: {}, ...JSON.parse(written.template) };
    this.endpoint = endpointOf(original, source.endpoint);
    const parameters = { ...source.parameters };
    checkNames(scope, parameters, original.Parameters, Object.keys(written.code));
    for (const [parameter, file] of Object.entries(written.code)) {
      const asset = new aws_s3_assets.Asset(scope, parameter, { path: file });
      parameters[parameter] = asset.s3ObjectKey;
      parameters.CodeBucket = asset.s3BucketName;
    }
    useRoleNames(original, parameters, source.roleNames ?? {});
    useTags(scope, original, parameters, tags, prefix);
    const { Outputs, ...template } = renamed(original, prefix, source.content !== undefined);
    this.outputs = Outputs;
    const { kept, taken, texts } = outputsOf(Outputs, prefix);
    const templateFile = join(folder, 'included.json');
    writeFileSync(templateFile, JSON.stringify({ ...template, Outputs: { ...kept, ...taken } }));
    this.include = new cloudformation_include.CfnInclude(scope, 'Template', {
      parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [`${prefix}${name}`, value])),
      templateFile,
    });
    const values = Object.fromEntries(Object.keys(taken).map((id) => [id, this.taken(id)]));
    const joined = (parts: Parts) => parts.map((part) => typeof part === 'string' ? part : values[part.output]).join('');
    this.values = Object.fromEntries(Object.entries(texts).map(([name, parts]) => [name, joined(parts)]));
  }

  /** The value of an output, which may be or have tokens; undefined where the template has none of the name. */
  public output(name: string): string | undefined {
    return this.values[name];
  }

  /** The resources that an output refers to. */
  public resourcesIn(name: string): CfnResource[] {
    const text = JSON.stringify(this.outputs[name]?.Value ?? '');
    return [...text.matchAll(/"(?:Ref":|Fn::GetAtt":\[)"(\w+)"/g)].map(([, id]) => this.include.getResource(id));
  }

  /** The value of an output that the app's template does not keep. */
  private taken(id: string): string {
    const output = this.include.getOutput(id);
    output.node.scope!.node.tryRemoveChild(output.node.id);
    return Token.asString(output.value);
  }
}

function writtenFor(scope: Construct, source: Source, prefix: string, folder: string): Written {
  const { path } = scope.node;
  const { account, artifactId, region, stackName } = Stack.of(scope);
  const known = (option: string, value: string) => (Token.isUnresolved(value) ? [] : [option, value]);
  // What is declared by its content has these in it.
  const ofStack = source.content !== undefined ? [] : [
    '--stack-name', `${Token.isUnresolved(stackName) ? artifactId : stackName}-${prefix}`,
    ...known('--account', account), ...known('--region', region),
  ];
  try {
    const { content, command } = source;
    const written = synthesize({ path: source.path, content, command, options: [...ofStack, '--tag', `${TAGS}=${TAGS}`] }, folder);
    for (const warning of written.warnings) {
      const [, text, id] = /^(.*?)(?: \[ack: ([^\]]+)\])?$/.exec(warning)!;
      Annotations.of(scope).addWarningV2(id ?? 'constructs-optim:Synth', inProps(text, path, source.content && prefix));
    }
    if (written.version !== VERSION) {
      const text = `constructs-optim ${written.version ?? 'of an earlier release'} synthesizes the endpoint, and the package `
        + `for TypeScript is of ${VERSION}, whose props it may not know or take otherwise. Install one release of both`;
      Annotations.of(scope).addWarningV2('constructs-optim:Version', text);
    }
    return written;
  } catch (error) {
    throw new Error(`${path}: ${inProps((error as Error).message, path, source.content && prefix)}`);
  }
}

/** The id of the endpoint that is meant. */
function endpointOf(template: any, given?: string): string {
  const ids = Object.keys(template.Outputs ?? {}).map((key) => /^(.+)EndpointArn$/.exec(key)?.[1]).filter((id) => id !== undefined);
  const id = given === undefined && ids.length === 1 ? ids[0] : given?.replace(/[^A-Za-z0-9]/g, '');
  if (id === undefined || !ids.includes(id)) {
    throw new Error(`endpoint is ${given}, and the file declares ${ids.join(', ') || 'no endpoint'}: name one of them`);
  }
  return id;
}

function checkNames(scope: Construct, given: object, declared: object, ofCode: string[]): void {
  const unknown = Object.keys(given).filter((name) => !(name in declared));
  const there = Object.keys(declared).filter((name) => ![...ofCode, 'CodeBucket'].includes(name));
  if (unknown.length > 0) {
    throw new Error(`${scope.node.path}: parameters has ${unknown.join(', ')}, and the file ${there.join(', ') || 'none'}`);
  }
}

/** Let policies name roles by their names, which a path may stand before. */
function useRoleNames(template: any, parameters: Record<string, any>, roleNames: Record<string, string>): void {
  const policies = Object.values<any>(template.Resources).filter(({ Type }) => /^AWS::IAM::(Managed)?Policy$/.test(Type));
  for (const [parameter, roleName] of Object.entries(roleNames)) {
    const name = `${parameter}RoleName`;
    template.Parameters[name] = { Type: 'String' };
    parameters[name] = roleName;
    for (const { Properties } of policies) {
      Properties.Roles = Properties.Roles?.map((role: any) => role.Ref === parameter ? { Ref: name } : role);
    }
  }
}

/**
 * Put the app's tags where the tool was given one that stands for them: into what handlers tag, which aspects do not
 * know. Other resources have them from aspects.
 */
function useTags(scope: Construct, template: any, parameters: Record<string, any>, tags: TagManager, prefix: string): void {
  const later = (produce: () => any) => {
    const name = `AppTags${Object.keys(parameters).length}`;
    template.Parameters[name] = { Type: 'String' };
    parameters[name] = Lazy.any({ produce });
    return { Ref: name };
  };
  const rendered = (): { Key: string; Value: any }[] => tags.renderTags() ?? [];
  const bound = (others: any) => JSON.parse(JSON.stringify(others), (_, value) => value?.Ref in template.Parameters
    ? parameters[value.Ref] ?? { Ref: `${prefix}${value.Ref}` }
    : value);
  const inText = (text: string): any[] => {
    const [before, comma, after, ...rest] = text.split(TAGS_IN_TEXT);
    const items = () => rendered().map((tag) => Stack.of(scope).toJsonString(tag));
    const list = () => items().length > 0 ? [comma, items().join(','), after].join('') : comma && after;
    return rest.length === 0 ? [text] : [before, later(list), ...inText(rest.join(''))];
  };
  const replaced = (value: any, isCustom: boolean): any => {
    if (Array.isArray(value)) {
      const marker = value.find((item) => (item?.Key ?? item?.key) === TAGS);
      const others = value.filter((item) => item !== marker);
      if (marker === undefined || !isCustom) {
        return marker !== undefined && others.length === 0 ? undefined : others.map((item) => replaced(item, isCustom));
      }
      const [key, text] = Object.keys(marker);
      return later(() => {
        const names = rendered().map((tag) => tag.Key);
        const all = [
          ...bound(others).filter((tag: any) => !names.includes(tag[key])),
          ...rendered().map(({ Key, Value }) => ({ [key]: Key, [text]: Value })),
        ];
        return all.length > 0 ? all : undefined;
      });
    }
    if (typeof value === 'string') {
      return TAGS_IN_TEXT.test(value) ? { 'Fn::Join': ['', inText(value)] } : value;
    }
    if (typeof value !== 'object' || value === null) {
      return value;
    }
    const [delimiter, parts] = value['Fn::Join'] ?? [];
    if (delimiter === '' && Array.isArray(parts)) {
      return { 'Fn::Join': ['', parts.flatMap((part) => typeof part === 'string' ? inText(part) : [part])] };
    }
    const members = Object.entries(value).filter(([name]) => name !== TAGS);
    return Object.fromEntries(members.map(([name, member]) => [name, replaced(member, isCustom)]));
  };
  for (const resource of Object.values<any>(template.Resources)) {
    resource.Properties = replaced(resource.Properties, resource.Type.startsWith('Custom::'));
  }
}

/**
 * The template with ids that begin with `prefix`, also where text has them: in queries of dashboards, and where handlers
 * look resources up. The names of outputs stay as they are. Where several have the stack's name, so have the log groups
 * whose names are made of that.
 */
function renamed(template: any, prefix: string, isOfStack: boolean): any {
  const { Parameters, ...sections } = template;
  const ids = [sections.Resources, sections.Mappings, sections.Conditions].flatMap((section) => Object.keys(section ?? {}));
  const known = new RegExp(`\\b(?:${ids.join('|')})\\b`, 'g');
  const text = JSON.stringify(sections)
    .replace(known, (id) => prefixed(id, prefix))
    .replace(/"Ref":"(\w+)"/g, (reference, id) => id in Parameters ? `"Ref":"${prefix}${id}"` : reference);
  const changed = JSON.parse(text);
  for (const { Type, Properties } of Object.values<any>(changed.Resources)) {
    if (isOfStack && Type === 'AWS::Logs::LogGroup' && typeof Properties.LogGroupName === 'string') {
      Properties.LogGroupName += `-${prefix}`;
    }
  }
  const parameters = Object.entries(Parameters).map(([name, parameter]) => [`${prefix}${name}`, parameter]);
  return { ...changed, Parameters: Object.fromEntries(parameters) };
}

/** An id that begins with `prefix`: as it is where its first words are that. */
function prefixed(id: string, prefix: string): string {
  return id.startsWith(prefix) && !/^[a-z]/.test(id.slice(prefix.length)) ? id : `${prefix}${id}`;
}

/** Text, and the ids of outputs whose values stand in it. */
type Parts = (string | { output: string })[];

/**
 * The outputs that the file declares, which the stack has (`kept`); and those that the tool adds, by their names, as text
 * in which the values of further outputs stand (`taken`), which are taken away.
 */
function outputsOf(outputs: Record<string, any>, prefix: string) {
  const ids = Object.keys(outputs).map((key) => /^(.+)(?:Endpoint|InferenceComponent)Arn$/.exec(key)?.[1]);
  const added = new Set(ids.flatMap((id) => OUTPUTS.map((name) => `${id}${name}`)));
  const [kept, taken, texts]: [Record<string, any>, Record<string, any>, Record<string, Parts>] = [{}, {}, {}];
  for (const [key, output] of Object.entries(outputs)) {
    if (!added.has(key)) {
      kept[prefixed(key, prefix)] = output;
      continue;
    }
    const [delimiter, joined] = output.Value['Fn::Join'] ?? [];
    texts[key] = (delimiter === '' ? joined as any[] : [output.Value]).map((Value) => {
      if (typeof Value === 'string') {
        return Value;
      }
      const id = `${prefix}Taken${Object.keys(taken).length}`;
      taken[id] = { Value };
      return { output: id };
    });
  }
  return { kept, taken, texts };
}
