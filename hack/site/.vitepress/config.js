// The site shows the Markdown of docs/ as it is: this file maps links, and lists the pages of each folder.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const repository = 'https://github.com/kyma-pull/kyma-pull'
const root = fileURLToPath(new URL('../../..', import.meta.url))
const docs = path.join(root, 'docs')

// Folders in the order of the sidebar. The top level has the remaining pages.
const folders = {
  tutorials: 'Tutorials', guides: 'Guides', runbooks: 'Runbooks', reference: 'Reference', 'reference/cli': 'Commands',
  security: 'Security', concepts: 'Concepts', adr: 'Decisions',
}

function title(file) {
  const heading = readFileSync(file, 'utf8').match(/^# +(.+)$/m)
  return heading ? heading[1].replaceAll('`', '') : path.basename(file, '.md')
}

// page returns the path of a file on the site, without its ending.
const page = (file) => file.replace(/README\.md$/, 'index.md').replace(/\.md$/, '')

function sidebar() {
  return Object.entries(folders).map(([folder, text]) => ({
    text,
    collapsed: true,
    items: readdirSync(path.join(docs, folder))
      .filter((name) => name.endsWith('.md') && name !== 'template.md')
      .map((name) => ({ text: title(path.join(docs, folder, name)), link: '/' + page(path.posix.join(folder, name)) })),
  }))
}

// slug names headings as GitHub does, so that anchors work in the repository and on the site.
const slug = (heading) => heading.trim().toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')

// target maps a link on a page: pages of docs/ stay relative, other files of the repository lead to GitHub.
function target(href, source) {
  if (/^([a-z]+:|#|\/)/.test(href)) return href
  const [file, anchor] = href.split('#')
  const absolute = path.join(path.dirname(source), file)
  if (!existsSync(absolute)) throw new Error(`${path.relative(root, source)} links to ${href}, which does not exist`)
  const fragment = anchor ? '#' + anchor : ''
  const inDocs = path.relative(docs, absolute)
  if (inDocs.startsWith('..') || !inDocs.endsWith('.md') || inDocs === 'adr/template.md') {
    return `${repository}/blob/main/${path.relative(root, absolute)}${fragment}`
  }
  return '/' + page(inDocs) + '.md' + fragment
}

function mapLinks(md) {
  md.core.ruler.push('map-links', (state) => {
    const source = path.join(docs, state.env.relativePath.replace(/(^|\/)index\.md$/, '$1README.md'))
    for (const token of state.tokens.flatMap((block) => block.children ?? [])) {
      if (token.type === 'link_open') token.attrSet('href', target(token.attrGet('href'), source))
    }
  })
}

// Vue would treat text in double braces as a template.
function showBraces(md) {
  const render = md.renderer.rules.text
  md.renderer.rules.text = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
}

export default {
  title: 'kyma-pull',
  description: 'Pull-based installation of Kyma modules in a fleet of clusters',
  srcDir: 'docs',
  srcExclude: ['adr/template.md'],
  outDir: '../../bin/site',
  cacheDir: '../../bin/site-cache',
  rewrites: (id) => id.replace(/README\.md$/, 'index.md'),
  cleanUrls: false,
  // Names of tests are long, and tables have several columns.
  head: [['style', {}, '.vp-doc td { vertical-align: top } .vp-doc td:last-child code { overflow-wrap: anywhere }']],
  lastUpdated: false,
  markdown: {
    anchor: { slugify: slug },
    languageAlias: { promql: 'sql' },
    config(md) {
      mapLinks(md)
      showBraces(md)
    },
  },
  // docs is a link to the pages, so that they find Vue in this folder.
  vite: { resolve: { preserveSymlinks: true }, build: { chunkSizeWarningLimit: 2000 } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Questions', link: '/#questions' },
      { text: 'Install', link: '/guides/install' },
      { text: 'Reference', link: '/#reference' },
    ],
    sidebar: sidebar(),
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path` },
  },
}
