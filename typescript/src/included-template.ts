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
  /** The ID of the endpoint. Default: the file's only endpoint. */
  readonly endpoint?: string;
  /** The values of the file's parameters. */
  readonly parameters?: Record<string, any>;
  /** Role names by parameter, for parameters whose value is a role's path and name. */
  readonly roleNames?: Record<string, string>;
  /** The command that synthesizes the file. */
  readonly command?: string[];
}

// A marker for the app's tags, which are known only after the template.
const TAGS = 'constructs-optim:tags';
const TAGS_IN_TEXT = new RegExp(`(,?)\\{"Key":"${TAGS}","Value":"${TAGS}"\\}(,?)`);
const prefixes = new WeakMap<Stack, Map<string, string>>();

/** Return the path of a construct in its stack as one ID. */
export function idInStack(scope: Construct, id: string): string {
  const stack = Stack.of(scope);
  const scopes = scope.node.scopes;
  const ids = [...scopes.slice(scopes.indexOf(stack) + 1).map((each) => each.node.id), id];
  return ids.join('').replace(/[^A-Za-z0-9]/g, '');
}

/** Return the prefix of a construct's logical IDs, which is unique in its stack. */
function prefixOf(construct: Construct): string {
  const { path, id, scope } = construct.node;
  const prefix = idInStack(scope!, id);
  const known = prefixes.get(Stack.of(construct)) ?? new Map<string, string>();
  prefixes.set(Stack.of(construct), known);
  if (prefix === '' || (known.get(prefix) ?? path) !== path) {
    const why = prefix === '' ? 'its ID has no ASCII letter or digit' : `so do those of ${known.get(prefix)}`;
    throw new Error(`${path}: its logical IDs begin with its path, but ${why}: give it another ID`);
  }
  known.set(prefix, path);
  return prefix;
}

/** A file's template, included in a stack. Its logical IDs begin with the construct's path in the stack. */
export class IncludedTemplate {
  /** The ID of the endpoint, as in the names of outputs. */
  public readonly endpoint: string;
  private readonly include: cloudformation_include.CfnInclude;
  private readonly outputs: Record<string, { Value: any }>;
  private readonly values: Record<string, string>;

  /** Synthesize the file's template and include it below a construct. Its handlers apply the tags of `tags`. */
  constructor(scope: Construct, source: Source, tags: TagManager) {
    const prefix = prefixOf(scope);
    const folder = join(Stage.of(scope)!.assetOutdir, `constructs-optim.${Stack.of(scope).artifactId}.${prefix}`);
    const written = writtenFor(scope, source, prefix, folder);
    const original = { Parameters: {}, ...JSON.parse(written.template) };
    this.endpoint = endpointOf(scope, original, source);
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

  /** Return the value of an output, which may contain tokens; undefined if there is no such output. */
  public output(name: string): string | undefined {
    return this.values[name];
  }

  /** Return the resources to which an output refers. */
  public resourcesIn(name: string): CfnResource[] {
    const text = JSON.stringify(this.outputs[name]?.Value ?? '');
    return [...text.matchAll(/"(?:Ref":|Fn::GetAtt":\[)"(\w+)"/g)].map(([, id]) => this.include.getResource(id));
  }

  /** Return the value of an output, and remove the output from the app's template. */
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
  const name = Token.isUnresolved(stackName) ? artifactId : stackName;
  // A file's content already has the account and the Region.
  const ofStack = source.content !== undefined ? ['--stack-name', name] : [
    '--stack-name', `${name}-${prefix}`, ...known('--account', account), ...known('--region', region),
  ];
  try {
    const { content, command } = source;
    const written = synthesize({ path: source.path, content, command, options: [...ofStack, '--tag', `${TAGS}=${TAGS}`] }, folder);
    for (const warning of written.warnings) {
      const [, text, id] = /^(.*?)(?: \[ack: ([^\]]+)\])?$/.exec(warning)!;
      Annotations.of(scope).addWarningV2(id ?? 'constructs-optim:Synth', inProps(text, path, source.content && prefix));
    }
    if (written.version !== VERSION) {
      const text = `constructs-optim ${written.version ?? 'of an earlier release'} synthesizes the endpoint, but the package `
        + `for TypeScript is ${VERSION}, so it may ignore or misread props. Install the same release of both`;
      Annotations.of(scope).addWarningV2('constructs-optim:Version', text);
    }
    return written;
  } catch (error) {
    throw new Error(`${path}: ${inProps((error as Error).message, path, source.content && prefix)}`);
  }
}

/** Return the ID of the endpoint. */
function endpointOf(scope: Construct, template: any, { endpoint: given, path }: Source): string {
  const ids = Object.keys(template.Outputs ?? {}).map((key) => /^(.+)EndpointArn$/.exec(key)?.[1]).filter((id) => id !== undefined);
  const id = given === undefined && ids.length === 1 ? ids[0] : given?.replace(/[^A-Za-z0-9]/g, '');
  if (id === undefined || !ids.includes(id)) {
    const named = given === undefined ? 'endpoint is not set' : `endpoint is ${given}`;
    const fix = ids.length === 0 ? 'add one, or run constructs-optim deploy, which needs none' : 'name one of them';
    throw new Error(`${scope.node.path}: ${named}, but ${path ?? 'the file'} declares ${ids.join(', ') || 'no endpoint'}: ${fix}`);
  }
  return id;
}

function checkNames(scope: Construct, given: object, declared: object, ofCode: string[]): void {
  const unknown = Object.keys(given).filter((name) => !(name in declared));
  const there = Object.keys(declared).filter((name) => ![...ofCode, 'CodeBucket'].includes(name));
  if (unknown.length > 0) {
    throw new Error(`${scope.node.path}: parameters has ${unknown.join(', ')}, but the file has ${there.join(', ') || 'none'}`);
  }
}

/** Let policies refer to roles by name, without a path. */
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
 * Replace the marker tag by the app's tags in custom resources, for tags that handlers apply. Other resources get the
 * app's tags from aspects.
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
 * Return the template with `prefix` before all logical IDs, also in text: in dashboards' queries, and where handlers look up
 * resources. Names of outputs do not change. If the template belongs to the stack, log groups named after the stack get the
 * prefix as a suffix, because several constructs share the stack's name.
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

/** Return an ID that begins with `prefix`, unchanged if its first words are the prefix. */
function prefixed(id: string, prefix: string): string {
  return id.startsWith(prefix) && !/^[a-z]/.test(id.slice(prefix.length)) ? id : `${prefix}${id}`;
}

/** Text, and the IDs of outputs whose values are inserted. */
type Parts = (string | { output: string })[];

/**
 * Return the file's own outputs, which the stack keeps (`kept`), and the tool's outputs by name (`texts`). Their texts insert
 * the values of further outputs (`taken`), which are removed from the stack.
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
